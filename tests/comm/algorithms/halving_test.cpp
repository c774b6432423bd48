#include <gtest/gtest.h>

#include <bit>

#include "tests/comm/algorithms/in_memory.hpp"

namespace sheaf::comm {
namespace {

using in_memory::expect_all_reduce;
using in_memory::kMostPlaces;

TEST(HalvingSchedule, SumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return halving_schedule(size, me, r); });
}

// The cost stated in the file: number of steps, elements sent per place.
TEST(HalvingSchedule, HasTheDocumentedCost) {
  const Range range{0, 1600};
  for (const int size : {2, 4, 8, 16}) {
    const auto places = static_cast<std::size_t>(size);
    for (int me = 0; me < size; ++me) {
      const Schedule halving = halving_schedule(size, me, range);
      EXPECT_EQ(halving.size(),
                2 * static_cast<std::size_t>(std::countr_zero(places)));
      EXPECT_EQ(in_memory::sent_by(halving), 2 * (places - 1) * 1600 / places);
    }
  }
}

}  // namespace
}  // namespace sheaf::comm
