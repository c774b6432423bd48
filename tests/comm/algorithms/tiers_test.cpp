#include <gtest/gtest.h>

#include "tests/comm/algorithms/in_memory.hpp"

namespace sheaf::comm {
namespace {

using in_memory::expect_all_reduce;

TEST(TiersSchedule, SumEverywhere) {
  using enum TierAlgorithm;
  for (const std::vector<int>& dims : std::vector<std::vector<int>>{
           {4, 3}, {3, 4}, {2, 2, 2}, {1, 5}, {5, 1}, {2, 1, 3}, {2, 3, 2}}) {
    int size = 1;
    for (const int dim : dims) size *= dim;
    for (const auto inner : {kRing, kHalving})
      for (const auto last : {kRing, kHalving, kTree}) {
        std::vector<TierAlgorithm> algorithms(dims.size(), inner);
        algorithms.back() = last;
        expect_all_reduce(size, [&](int me, Range range) {
          return tiers_schedule(dims, algorithms, me, range);
        });
      }
  }
}

}  // namespace
}  // namespace sheaf::comm
