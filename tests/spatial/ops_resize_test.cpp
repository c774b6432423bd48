#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SplitResize, Upsampling) {
  namespace F = torch::nn::functional;
  const auto by = [](const char* name, auto mode, double factor, bool aligns) {
    return Case{
        name, {1, 2, 5, 7}, {}, [=](const at::Tensor& x, const Tensors&) {
          auto options = F::InterpolateFuncOptions()
                             .scale_factor(std::vector<double>{factor, factor})
                             .mode(mode);
          if constexpr (std::is_same_v<decltype(mode),
                                       torch::enumtype::kBilinear>)
            options.align_corners(aligns);
          return F::interpolate(x, options);
        }};
  };
  expect_on_grids({by("nearest 2", torch::kNearest, 2, false),
                   by("nearest 1.5", torch::kNearest, 1.5, false),
                   by("bilinear 2", torch::kBilinear, 2, false),
                   by("bilinear 3, corners", torch::kBilinear, 3, true),
                   by("bilinear 0.5", torch::kBilinear, 0.5, false)},
                  kFlatGrids);
}

}  // namespace
}  // namespace sheaf::spatial
