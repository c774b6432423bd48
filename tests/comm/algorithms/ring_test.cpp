#include <gtest/gtest.h>

#include <bit>

#include "tests/comm/algorithms/in_memory.hpp"

namespace sheaf::comm {
namespace {

using in_memory::expect_all_reduce;
using in_memory::kMostPlaces;

TEST(RingSchedule, SumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return ring_schedule(size, me, r); });
}

// The cost stated in the file: number of steps, elements sent per place.
TEST(RingSchedule, HasTheDocumentedCost) {
  const Range range{0, 1600};
  for (const int size : {2, 4, 8, 16}) {
    const auto places = static_cast<std::size_t>(size);
    for (int me = 0; me < size; ++me) {
      const Schedule ring = ring_schedule(size, me, range);
      EXPECT_EQ(ring.size(), 2 * (places - 1));
      EXPECT_EQ(in_memory::sent_by(ring), 2 * (places - 1) * 1600 / places);
    }
  }
}

}  // namespace
}  // namespace sheaf::comm
