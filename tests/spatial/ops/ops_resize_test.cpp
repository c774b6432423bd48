#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

Case nearest(const Sizes& from, const Sizes& to) {
  return {
      concat("nearest of ", at::IntArrayRef(from), " to ", at::IntArrayRef(to)),
      from,
      {},
      [=](const at::Tensor& x, const Tensors&) {
        return to.size() == 1 ? at::upsample_nearest1d(x, to)
                              : at::upsample_nearest2d(x, to);
      }};
}

Case nearest_by(const Sizes& from, double factor) {
  namespace F = torch::nn::functional;
  return {concat("nearest of ", at::IntArrayRef(from), " by ", factor),
          from,
          {},
          [=](const at::Tensor& x, const Tensors&) {
            return F::interpolate(x, F::InterpolateFuncOptions()
                                         .scale_factor(std::vector<double>(
                                             from.size() - 2, factor))
                                         .recompute_scale_factor(false)
                                         .mode(torch::kNearest));
          }};
}

// Ratios that libtorch rounds in its floating-point type; forward and backward
// differ there, and images with one channel differ from others.
TEST(SplitResize, NearestPlacesAreLibtorchs) {
  std::vector<Case> lines{nearest({1, 2, 112}, {96}),
                          nearest({1, 2, 112}, {48}),
                          nearest({1, 2, 200}, {96})};
  std::vector<Case> images{nearest({1, 2, 112, 30}, {96, 41}),
                           nearest({1, 1, 30, 112}, {10, 96}),
                           nearest({1, 1, 112, 3}, {48, 7})};
  for (const double factor : {1.3, 2.01, 0.7, 1.001}) {
    lines.push_back(nearest_by({1, 2, 40}, factor));
    images.push_back(nearest_by({1, 2, 40, 9}, factor));
  }
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const double tolerance = type == at::kDouble ? 1e-12 : 1e-6;
    expect_on_grids(lines, {"1", "2", "3"}, type, tolerance);
    expect_on_grids(images, {"1x2", "2x2", "3x1"}, type, tolerance);
  }
}

// A factor of 110, for which libtorch has one rule for images with one channel
// and in channels_last order, and another rule for all others.
TEST(SplitResize, NearestPlacesDependOnTheOrderInMemory) {
  namespace F = torch::nn::functional;
  const auto resized = [](const at::Tensor& x) {
    return F::interpolate(x, F::InterpolateFuncOptions()
                                 .scale_factor(std::vector<double>{110, 110})
                                 .recompute_scale_factor(false)
                                 .mode(torch::kNearest));
  };
  const auto changed = [&](const char* name, std::int64_t channels,
                           at::Tensor (*change)(const at::Tensor&)) {
    return Case{name,
                {2, channels, 5, 5},
                {},
                [=](const at::Tensor& x, const Tensors&) {
                  return resized(change(x));
                }};
  };
  const auto crop = [](const at::Tensor& x) {
    return x.slice(2, 1, 4).slice(3, 1, 4);
  };
  expect_on_grids(
      {changed("usual", 2, [](const at::Tensor& x) { return x * 2; }),
       changed("one channel", 1, [](const at::Tensor& x) { return x * 2; }),
       changed("transposed, then copied", 1,
               [](const at::Tensor& x) {
                 return x.transpose(2, 3).clone(at::MemoryFormat::Contiguous) *
                        2;
               }),
       changed("cropped", 1,
               [](const at::Tensor& x) {
                 return x.slice(2, 1, 4).slice(3, 1, 4).clone();
               }),
       changed("channels last, then pooled and copied", 2,
               [](const at::Tensor& x) {
                 return at::max_pool2d(
                            (x * 2).contiguous(at::MemoryFormat::ChannelsLast),
                            3, 1, 1)
                     .clone(at::MemoryFormat::Contiguous);
               })},
      {"1x1", "1x2", "2x2"});
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x1"));
    const at::Tensor x = cut(torch::ones({2, 1, 5, 5}, torch::kDouble), tiles);
    const at::Tensor two =
        cut(torch::ones({2, 2, 5, 5}, torch::kDouble), tiles);
    EXPECT_NO_THROW(resized(crop(x).clone()));
    const at::Tensor last = two.contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor pooled = at::max_pool2d(last * 2, 3, 1, 1);
    // Later versions of libtorch have the same rules here.
    if (TORCH_VERSION_MAJOR == 1)
      for (const at::Tensor& part :
           {crop(x), crop(x).detach(), last, last.contiguous() * 2, pooled,
            x * pooled, at::where(x > 0, pooled, two),
            at::cat({two, pooled}, 1), at::layer_norm(last, {2, 5, 5}),
            x.transpose(2, 3) * 2,
            two.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2})})
        EXPECT_THROW(resized(part), UsageError);
    else
      EXPECT_NO_THROW(resized(crop(x)));
  });
}

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

// Each axis of a volume has its own scale, which differs from the ratio of the
// sizes.
TEST(SplitResize, NearestPlacesOfVolumesFollowTheScales) {
  expect_on_grids(
      {nearest_by({1, 2, 7, 9, 8}, 1.3), nearest_by({1, 1, 9, 7, 11}, 1.7)},
      {"2x1x1", "1x2x1", "1x1x2", "1x2x2"});
}

}  // namespace
}  // namespace sheaf::spatial
