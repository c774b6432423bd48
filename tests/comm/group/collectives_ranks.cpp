// The sweep over real processes; with SHEAF_HOSTS, over simulated hosts.

#include <gtest/gtest.h>

#include "sheaf/comm/rivals/rival.hpp"
#include "tests/comm/algorithms/ordered_sum.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/world.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Memory;

TEST(Ranks, EveryTypeAndReduction) {
  for (int type = 0; type < kDTypeCount; ++type)
    for (int op = 0; op < kReduceOpCount; ++op) {
      Case test{.dtype = static_cast<DType>(type),
                .op = static_cast<ReduceOp>(op),
                .count = 100};
      if (is_defined(test.op, test.dtype))
        test::check_everything(test::world(), test);
    }
}

TEST(Ranks, EverySize) {
  for (const auto memory : {Memory::kPlain, Memory::kArena})
    for (const std::size_t count : {0, 1, 4097, 65537, 300001})
      test::check_large(test::world(), {.count = count, .memory = memory});
}

TEST(Ranks, EveryAlgorithm) {
  for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalving,
                               Algorithm::kTree, Algorithm::kHierarchical})
    for (const std::size_t count : {1, 1000, 300001}) {
      Case test{.count = count};
      test.options.algorithm = algorithm;
      test::check_all_reduce(test::world(), test);
    }
}

template <class T>
void check_reproducible(Algorithm algorithm) {
  const Group& world = test::world();
  constexpr std::size_t kCount = 30011;
  const auto mine = test::rough_data<T>(world.rank(), kCount);
  const auto expected =
      test::ordered_sum<T>(world.size(), kCount, ReduceOp::kAvg);
  const CollectiveOptions options{.op = ReduceOp::kAvg,
                                  .root = world.size() - 1,
                                  .algorithm = algorithm,
                                  .reproducible = true};
  std::vector<T> output(kCount);
  all_reduce(world, mine, output, options).wait();
  EXPECT_TRUE(test::same_bits(output, expected)) << "all_reduce";
  reduce(world, mine, output, options).wait();
  EXPECT_TRUE(world.rank() != options.root || test::same_bits(output, expected))
      << "reduce";
  std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), 1000);
  counts.back() = kCount - 1000 * (counts.size() - 1);
  output.resize(counts[static_cast<std::size_t>(world.rank())]);
  reduce_scatter(world, mine, output, options, counts).wait();
  const auto from = expected.begin() + 1000 * world.rank();
  EXPECT_TRUE(
      test::same_bits(output, {from, from + static_cast<long>(output.size())}))
      << "reduce_scatter";
}

TEST(Ranks, ReproducibleWhateverTheOperation) {
  for (const auto algorithm :
       {Algorithm::kAuto, Algorithm::kRing, Algorithm::kMpi}) {
    check_reproducible<float>(algorithm);
    check_reproducible<double>(algorithm);
    check_reproducible<Half>(algorithm);
    check_reproducible<BFloat16>(algorithm);
  }
}

// Also with plain MPI. The sum itself exceeds the range of f16.
TEST(Ranks, AveragesOfHalvesDoNotOverflow) {
  const Group& world = test::world();
  const Half value = to_half(40000);
  for (const auto algorithm : {Algorithm::kAuto, Algorithm::kRing,
                               Algorithm::kTree, Algorithm::kMpi}) {
    std::vector<Half> data(5001, value);
    all_reduce(world, data, {.op = ReduceOp::kAvg, .algorithm = algorithm})
        .wait();
    EXPECT_EQ(data, std::vector<Half>(5001, value)) << topo::name_of(algorithm);
  }
  std::vector<Half> data(5001, value);
  plain_mpi_all_reduce(world, data, ReduceOp::kAvg);
  EXPECT_EQ(data, std::vector<Half>(5001, value)) << "plain MPI";
}

TEST(Ranks, GroupsOfGroups) {
  const Group& world = test::world();
  const Group half = world.split(world.rank() % 2, -world.rank());
  test::check_everything(half, {.count = 1000});
  const Group last = world.new_group({world.size() - 1});
  EXPECT_EQ(last.is_member(), world.rank() == world.size() - 1);
  if (last.is_member()) test::check_everything(last, {.count = 10});
  test::check_everything(world, {.count = 1000});
}

}  // namespace
}  // namespace sheaf::comm
