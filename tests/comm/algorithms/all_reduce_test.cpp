// Sums whose bits depend on the order of additions: the same on all ranks and
// in all runs and, with `reproducible`, the same for every algorithm.

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/algorithms/ordered_sum.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;
using test::ordered_sum;
using test::rough_data;
using test::same_bits;
using test::widened;

// The first element of a rank's result that differs, if any.
template <class T>
testing::AssertionResult is_sum(const std::vector<T>& data,
                                const std::vector<T>& expected) {
  if (same_bits(data, expected)) return testing::AssertionSuccess();
  std::size_t i = 0;
  while (same_bits<T>({data[i]}, {expected[i]})) ++i;
  return testing::AssertionFailure()
         << "element " << i << " is " << widened(data[i]) << ", expected "
         << widened(expected[i]);
}

class Reproducible : public testing::TestWithParam<Hosts> {
 protected:
  template <class T>
  static void check(const Group& group, std::size_t count,
                    const CollectiveOptions& options) {
    SCOPED_TRACE(testing::Message()
                 << name_of(dtype_of<T>) << ", " << name_of(options.op) << ", "
                 << count << " elements, " << topo::name_of(options.algorithm));
    auto data = rough_data<T>(group.rank(), count);
    all_reduce(group, data, options).wait();
    EXPECT_TRUE(is_sum(data, ordered_sum<T>(group.size(), count, options.op)));
  }
};

TEST_P(Reproducible, WhateverTheLayoutAndSize) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg})
      for (const std::size_t count : {1, 100, 5000, 100000}) {
        check<float>(group, count, {.op = op, .reproducible = true});
        check<double>(group, count, {.op = op, .reproducible = true});
        check<Half>(group, count, {.op = op, .reproducible = true});
        check<BFloat16>(group, count, {.op = op, .reproducible = true});
      }
  });
}

TEST_P(Reproducible, WhateverTheAlgorithm) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalving,
                                 Algorithm::kTree, Algorithm::kHierarchical})
      check<float>(group, 30000,
                   {.algorithm = algorithm, .reproducible = true});
  });
}

TEST_P(Reproducible, WhateverTheBuckets) {
  run_threads(GetParam(), [](const Group& group) {
    constexpr std::size_t kCount = 30000;
    const auto expected =
        ordered_sum<float>(group.size(), kCount, ReduceOp::kSum);
    auto pieces = rough_data<float>(group.rank(), kCount);
    auto arena = group.allocate<float>(kCount);
    std::vector<Buffer> buckets;
    for (std::size_t at = 0, size = 1; at < kCount; at += size, size *= 3) {
      const std::size_t count = std::min(size, kCount - at);
      buckets.emplace_back(pieces.data() + at, count, DType::kF32);
    }
    auto fused = pieces;
    for (const Buffer& bucket : buckets)
      all_reduce(group, bucket, {.reproducible = true}).wait();
    EXPECT_TRUE(is_sum(pieces, expected));
    pieces = fused;
    all_reduce_n(group, buckets, {.reproducible = true}).wait();
    EXPECT_TRUE(is_sum(pieces, expected)) << "all_reduce_n";
    std::copy(fused.begin(), fused.end(), arena.begin());
    all_reduce(group, Buffer(arena.data(), kCount, DType::kF32),
               {.reproducible = true})
        .wait();
    EXPECT_TRUE(is_sum({arena.begin(), arena.end()}, expected)) << "arena";
  });
}

TEST_P(Reproducible, ByTheWorldsOption) {
  topo::Options options;
  options.reproducible = true;
  run_threads(
      GetParam(), [](const Group& group) { check<float>(group, 30000, {}); },
      options);
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, Reproducible,
    testing::Values(Hosts{"a", "a", "a", "a"}, Hosts{"a", "a", "b", "b"},
                    Hosts{"a", "b", "c", "d"}, Hosts{"a", "b", "a", "b"},
                    Hosts{"a", "a", "a", "b"},
                    Hosts{"a", "a", "a", "a", "a", "a", "a"},
                    Hosts{"a", "b", "b", "a", "b", "c", "b"}),
    test::joined);

class DefaultOrder : public testing::TestWithParam<Hosts> {
 protected:
  // The results of all ranks, in rank order.
  static std::vector<std::vector<float>> results(
      const CollectiveOptions& options, std::size_t count) {
    std::vector<std::vector<float>> all(GetParam().size());
    run_threads(GetParam(), [&](const Group& group) {
      auto data = rough_data<float>(group.rank(), count);
      all_reduce(group, data, options).wait();
      all[static_cast<std::size_t>(group.rank())] = data;
    });
    return all;
  }
};

TEST_P(DefaultOrder, IsTheSameOnAllRanksAndInAllRuns) {
  for (const auto algorithm :
       {Algorithm::kAuto, Algorithm::kRing, Algorithm::kHalving,
        Algorithm::kTree, Algorithm::kHierarchical})
    for (const std::size_t count : {1000, 100000}) {
      const auto first = results({.algorithm = algorithm}, count);
      const auto second = results({.algorithm = algorithm}, count);
      for (std::size_t rank = 0; rank < first.size(); ++rank) {
        EXPECT_TRUE(is_sum(first[rank], first[0])) << "rank " << rank;
        EXPECT_TRUE(is_sum(second[rank], first[0])) << "again, rank " << rank;
      }
    }
}

// AVG divides the whole sum, once, at its end.
TEST_P(DefaultOrder, AverageIsTheSumDividedOnce) {
  for (const auto algorithm :
       {Algorithm::kAuto, Algorithm::kRing, Algorithm::kHalving,
        Algorithm::kTree, Algorithm::kHierarchical}) {
    auto sum = results({.algorithm = algorithm}, 50000)[0];
    for (float& value : sum) value /= static_cast<float>(GetParam().size());
    const auto average =
        results({.op = ReduceOp::kAvg, .algorithm = algorithm}, 50000);
    EXPECT_TRUE(is_sum(average[0], sum)) << topo::name_of(algorithm);
  }
}

TEST_P(DefaultOrder, NotANumberReachesAllRanks) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct})
      for (const std::size_t count : {10, 50000}) {
        std::vector<float> data(count, 1);
        if (group.rank() == 1) data[3] = std::nanf("");
        all_reduce(group, data, {.op = op}).wait();
        EXPECT_TRUE(std::isnan(data[3]));
        EXPECT_FALSE(std::isnan(data[4]));
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, DefaultOrder,
                         testing::Values(Hosts{"a", "a", "a", "a", "a"},
                                         Hosts{"a", "a", "b", "b"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "b", "c", "c", "c"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
