#include "tests/spatial/training.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

template <class Net>
void expect_same_losses(const Task& task, int samples = 1) {
  const auto wanted = losses_alone<Net>(task);
  for (const std::string grid : {"1x1", "1x2", "2x2", "2x3"})
    comm::run_threads(halo::Grid::parse(grid).ranks() * samples,
                      [&](const comm::Group& group) {
                        expect_near(losses_on<Net>(grid, samples, task, group),
                                    wanted, grid);
                      });
}

TEST(SpatialParallel, TrainsAConvNet) { expect_same_losses<ConvNetImpl>({}); }

TEST(SpatialParallel, TrainsAResidualNet) {
  expect_same_losses<ResidualNetImpl>({.image = 17});
}

TEST(SpatialParallel, TrainsAUNet) {
  expect_same_losses<UNetImpl>({.image = 18, .has_classes_of_pixels = true});
}

TEST(SpatialParallel, TrainsOnSamplesAndTiles) {
  expect_same_losses<ConvNetImpl>({}, 2);
  expect_same_losses<UNetImpl>({.image = 18, .has_classes_of_pixels = true}, 2);
}

// The moments are over the samples of all groups, as in a single process.
TEST(SpatialParallel, TrainsWithMomentsOfAllSamples) {
  const Task task{.image = 17};
  const auto wanted = losses_alone<ResidualNetImpl>(task);
  for (const auto& rows : {std::vector<std::int64_t>{2, 2}, {3, 1}, {1, 1, 2}})
    for (const std::string grid : {"1x1", "1x2", "2x1"})
      comm::run_threads(
          halo::Grid::parse(grid).ranks() * static_cast<int>(rows.size()),
          [&](const comm::Group& group) {
            const Sharing sharing{.rows = rows, .has_moments_of_all = true};
            expect_near(losses_on<ResidualNetImpl>(grid, sharing, task, group),
                        wanted, concat(grid, " for ", at::IntArrayRef(rows)));
          });
}

TEST(SpatialParallel, SaysWhatDoesNotFit) {
  comm::run_threads(3, [](const comm::Group& group) {
    auto net = make_net<ConvNetImpl>(1);
    EXPECT_THROW(SpatialParallel(net, group, {.grid = "2x2"}), UsageError);
    EXPECT_THROW(SpatialParallel(net, group, {.grid = "1x3", .samples = 2}),
                 UsageError);
    EXPECT_THROW(SpatialParallel(net, group, {.grid = "1xq"}), UsageError);
    SpatialParallel model(net, group, {.grid = "1x3"});
    EXPECT_THROW(model.forward(at::zeros({3, 3})), UsageError);
    EXPECT_THROW(model.from_part(at::zeros({1, 1, 2, 2}), {1, 1, 4, 4}),
                 UsageError);
  });
}

}  // namespace
}  // namespace sheaf::spatial
