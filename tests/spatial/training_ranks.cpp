// The same as training_test.cpp with processes.

#include <gtest/gtest.h>

#include "tests/spatial/training.hpp"
#include "tests/support/world.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SpatialRanks, TrainOnAGrid) {
  const comm::Group& world = sheaf::test::world();
  const std::string grid = world.size() == 4 ? "2x2"
                           : world.size() == 3
                               ? "3x1"
                               : "1x" + std::to_string(world.size());
  expect_near(losses_on<ConvNetImpl>(grid, 1, {}, world),
              losses_alone<ConvNetImpl>({}), grid);
  const Task pixels{.image = 18, .has_classes_of_pixels = true};
  expect_near(losses_on<UNetImpl>(grid, 1, pixels, world),
              losses_alone<UNetImpl>(pixels), grid);
}

}  // namespace
}  // namespace sheaf::spatial
