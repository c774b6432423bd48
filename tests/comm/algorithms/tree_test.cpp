#include <gtest/gtest.h>

#include <bit>

#include "tests/comm/algorithms/in_memory.hpp"

namespace sheaf::comm {
namespace {

using in_memory::carry_out;
using in_memory::expect_all_reduce;
using in_memory::expect_sum;
using in_memory::kBegin;
using in_memory::kMostPlaces;
using in_memory::Places;

TEST(TreeSchedule, SumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return tree_schedule(size, me, r); });
}

TEST(TreeSchedule, ReduceSumsAtItsRoot) {
  for (int size = 1; size <= kMostPlaces; ++size)
    for (int root = 0; root < size; ++root) {
      const Places places = carry_out(size, 3, [=](int me, Range range) {
        return reduce_schedule(size, me, root, range);
      });
      expect_sum(places, root, size);
    }
}

TEST(TreeSchedule, BroadcastCopiesFromItsRoot) {
  for (int size = 1; size <= kMostPlaces; ++size)
    for (int root = 0; root < size; ++root) {
      const Places places = carry_out(size, 3, [=](int me, Range range) {
        return broadcast_schedule(size, me, root, range);
      });
      for (int place = 0; place < size; ++place)
        for (std::size_t i = kBegin; i < places.at(place).size(); ++i)
          EXPECT_EQ(places.at(place)[i].parts, std::multiset<int>{root});
    }
}

// The cost stated in the file: number of steps, elements sent per place.
TEST(TreeSchedule, HasTheDocumentedCost) {
  const Range range{0, 1600};
  for (const int size : {2, 4, 8, 16}) {
    const auto places = static_cast<std::size_t>(size);
    for (int me = 0; me < size; ++me) {
      EXPECT_LE(tree_schedule(size, me, range).size(),
                2 * static_cast<std::size_t>(std::countr_zero(places)));
    }
  }
}

}  // namespace
}  // namespace sheaf::comm
