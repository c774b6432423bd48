// Sums and averages of f16 and bf16 between hosts: exchanged in f32 and rounded
// once, as one process would. All sums here are exact in f32, whatever their
// order.

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/algorithms/ordered_sum.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;
using test::narrowed;

constexpr Algorithm kHalfAlgorithms[] = {Algorithm::kAuto, Algorithm::kRing,
                                         Algorithm::kHalving, Algorithm::kTree,
                                         Algorithm::kHierarchical};
constexpr std::size_t kHalfCounts[] = {5, 70001};

// Every element is values[rank]; the result is `expected` everywhere.
template <class T>
class HalfSum {
 public:
  HalfSum(const Group& group, const std::vector<float>& values, float expected)
      : group_(group),
        value_(narrowed<T>(values[static_cast<std::size_t>(group.rank())])),
        expected_(narrowed<T>(expected)) {}

  void check(ReduceOp op) {
    for (const auto algorithm : kHalfAlgorithms)
      for (const std::size_t count : kHalfCounts) {
        SCOPED_TRACE(testing::Message()
                     << name_of(dtype_of<T>) << " " << name_of(op) << ", "
                     << count << " elements, " << topo::name_of(algorithm));
        check(count, {.op = op, .algorithm = algorithm});
      }
  }

 private:
  void check(std::size_t count, CollectiveOptions options) {
    const std::vector<T> wanted(count, expected_);
    std::vector<T> data(count, value_);
    all_reduce(group_, data, options).wait();
    EXPECT_TRUE(data == wanted) << "all_reduce: " << to_float(data[0]);

    options.root = group_.size() / 2;
    std::vector<T> input(count, value_);
    std::vector<T> output(count);
    reduce(group_, input, output, options).wait();
    EXPECT_TRUE(group_.rank() != options.root || output == wanted)
        << "reduce: " << to_float(output[0]);
    options.root = 0;

    input.assign(count * static_cast<std::size_t>(group_.size()), value_);
    output.assign(count, {});
    reduce_scatter(group_, input, output, options).wait();
    EXPECT_TRUE(output == wanted) << "reduce_scatter: " << to_float(output[0]);
  }

  const Group& group_;
  const T value_;
  const T expected_;
};

class HalfSums : public testing::TestWithParam<Hosts> {
 protected:
  static void check(const std::vector<float>& values, ReduceOp op,
                    float expected) {
    run_threads(GetParam(), [&](const Group& group) {
      HalfSum<Half>(group, values, expected).check(op);
      HalfSum<BFloat16>(group, values, expected).check(op);
    });
  }
};

TEST_P(HalfSums, AverageOfLargeNumbersIsNotInfinite) {
  check(std::vector<float>(8, 20480), ReduceOp::kAvg, 20480);
}

// The largest finite numbers: their sum is exact in f32.
TEST_P(HalfSums, AverageOfTheLargestNumberIsThatNumber) {
  run_threads(GetParam(), [](const Group& group) {
    HalfSum<Half>(group, std::vector<float>(8, 65504), 65504)
        .check(ReduceOp::kAvg);
  });
}

TEST_P(HalfSums, AverageOfTheSmallestNumberIsThatNumber) {
  run_threads(GetParam(), [](const Group& group) {
    HalfSum<Half>(group, std::vector<float>(8, 0x1p-24f), 0x1p-24f)
        .check(ReduceOp::kAvg);
    HalfSum<BFloat16>(group, std::vector<float>(8, 0x1p-133f), 0x1p-133f)
        .check(ReduceOp::kAvg);
  });
}

// A partial sum of the first ranks exceeds f16, however they are placed.
TEST_P(HalfSums, LargeNumbersCancel) {
  check({40960, 40960, 40960, 40960, -40960, -40960, -40960, -40704},
        ReduceOp::kSum, 256);
}

// The small number is lost if partial sums are rounded to 8 or 11 bits.
TEST_P(HalfSums, SmallNumbersAreNotLostInPartialSums) {
  check({4096, 1, 4096, 1, -4096, 1, -4096, 1}, ReduceOp::kSum, 4);
}

TEST_P(HalfSums, FactorsCancel) {
  check({1024, 1024, 1024, 1024, 0x1p-10f, 0x1p-10f, 0x1p-10f, 0x1p-10f},
        ReduceOp::kProduct, 1);
}

TEST_P(HalfSums, SumsBeyondTheTypeAreInfinite) {
  run_threads(GetParam(), [](const Group& group) {
    HalfSum<Half>(group, std::vector<float>(8, 20000), INFINITY)
        .check(ReduceOp::kSum);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, HalfSums,
    testing::Values(Hosts{"a", "a", "a", "a", "b", "b", "b", "b"},
                    Hosts{"a", "a", "a", "b", "b", "c", "c", "c"},
                    Hosts{"a", "b", "a", "b", "a", "b", "a", "b"},
                    Hosts{"a", "a", "a", "a", "a", "a", "a", "a"}),
    test::joined);

}  // namespace
}  // namespace sheaf::comm
