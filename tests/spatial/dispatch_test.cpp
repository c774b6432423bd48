#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SplitOperations, SayWhatCannotBeSplit) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    const at::Tensor x = cut(at::rand({1, 2, 4, 6}), tiles);
    const auto message = [](const std::function<void()>& action) {
      try {
        action();
      } catch (const UsageError& error) {
        return std::string(error.what());
      }
      return std::string("nothing");
    };
    EXPECT_NE(message([&] { at::cumprod(x, 1); })
                  .find("aten::cumprod on a tensor that is split over ranks "
                        "(1x2x[0|4]x[0|3|6])"),
              std::string::npos)
        << message([&] { at::cumprod(x, 1); });
    EXPECT_NE(message([&] { x.softmax(3); }).find("the axis is cut"),
              std::string::npos);
    EXPECT_NE(message([&] {
                x.view({1, 8, 6});
              }).find("mix an axis"),
              std::string::npos);
    EXPECT_THROW(x.data_ptr(), c10::Error);
  });
}

}  // namespace
}  // namespace sheaf::spatial
