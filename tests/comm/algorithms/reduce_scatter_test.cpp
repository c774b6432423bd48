#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Elements;
using test::Hosts;
using test::Memory;

class ReduceScatterTest : public testing::TestWithParam<Hosts> {
 protected:
  // Rank r gets counts[r] elements of the reduction.
  static void check(const Group& group, const std::vector<std::size_t>& counts,
                    DType dtype, ReduceOp op, Memory memory) {
    SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << name_of(op));
    std::size_t start = 0;
    std::size_t all = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      if (static_cast<int>(rank) == group.rank()) start = all;
      all += counts[rank];
    }
    const std::size_t mine = counts[static_cast<std::size_t>(group.rank())];
    const Elements input(group, memory, dtype,
                         test::exact_data(dtype, op, group.rank(), all));
    const Elements output(group, memory, dtype, mine);
    reduce_scatter(group, input.buffer(), output.buffer(), {.op = op}, counts)
        .wait();
    EXPECT_TRUE(
        output.holds(test::exact_result(dtype, op, group.size(), mine, start)));
    EXPECT_TRUE(input.holds(test::exact_data(dtype, op, group.rank(), all)));
  }
};

// Some blocks are empty, one needs several windows.
TEST_P(ReduceScatterTest, EveryRankGetsItsBlockOfTheSum) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t scale : {0, 1, 7, 40001})
      for (const auto memory : {Memory::kPlain, Memory::kArena}) {
        std::vector<std::size_t> counts;
        for (int rank = 0; rank < group.size(); ++rank)
          counts.push_back(static_cast<std::size_t>(rank) * scale);
        check(group, counts, DType::kF32, ReduceOp::kSum, memory);
        check(group, counts, DType::kI16, ReduceOp::kMax, memory);
        check(group, counts, DType::kF64, ReduceOp::kAvg, memory);
      }
  });
}

// Between hosts, sums of 16-bit floats travel in f32.
TEST_P(ReduceScatterTest, SumsOfHalvesAreRoundedOnce) {
  run_threads(GetParam(), [](const Group& group) {
    const auto ranks = static_cast<std::size_t>(group.size());
    // 2048 of rank 0 and 1 of all others: in f16, 2048 + 1 is 2048.
    const std::vector<Half> input(3 * ranks,
                                  to_half(group.rank() == 0 ? 2048.f : 1.f));
    std::vector<Half> output(3);
    reduce_scatter(group, input, output).wait();
    const Half expected =
        to_half(2048.f + static_cast<float>(group.size() - 1));
    EXPECT_EQ(output, std::vector<Half>(3, expected));
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, ReduceScatterTest,
                         testing::Values(Hosts{"a"}, Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "a", "b", "c"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
