// All-reduce, reduce and broadcast by plans with segments of two cache lines,
// so that short buffers have many of them.

#include "sheaf/comm/algorithms/pipeline.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::exact_data;
using test::Hosts;

constexpr std::size_t kStageBytes = 128;
constexpr std::size_t kStageElements = kStageBytes / sizeof(std::int32_t);

// Around a cache line, a segment and the window, and more segments than tags.
constexpr std::size_t kStageCounts[] = {0,
                                        1,
                                        15,
                                        16,
                                        17,
                                        kStageElements,
                                        kStageElements + 1,
                                        5 * kStageElements,
                                        70 * kStageElements + 5};

// The kind of memory of a rank's buffers. A host with any plain buffer uses
// staging buffers.
using MemoryOfRank = test::Memory (*)(int rank);
constexpr MemoryOfRank kStageMemories[] = {
    [](int) { return test::Memory::kPlain; },
    [](int) { return test::Memory::kArena; },
    [](int rank) {
      return rank == 0 ? test::Memory::kPlain : test::Memory::kArena;
    }};

struct StageCase {
  std::size_t count;
  test::Memory memory;
  PipelinePlan plan;
};

// With one lane per rank of the widest host, with one lane, and flat.
std::vector<PipelinePlan> stage_plans(const Group& group) {
  const HostMap& host_map = group.core().host_map();
  PipelinePlan wide;
  wide.lanes = host_map.widest_host();
  wide.segment_bytes = kStageBytes;
  wide.outer_dims = {host_map.host_count()};
  wide.tier_algorithms = {TierAlgorithm::kRing};
  PipelinePlan narrow = wide;
  narrow.lanes = 1;
  PipelinePlan flat = narrow;
  flat.is_flat = true;
  flat.outer_dims = {group.size()};
  return {wide, narrow, flat};
}

PipelineTimes run_stages(const Group& group, const PipelineJob& job,
                         const PipelinePlan& plan) {
  GroupCore& core = group.core();
  const DType dtype = job.reduction.dtype;
  const SharedBuffers shared = core.runtime().memory().shared(
      job.input, job.output, job.count * size_of(dtype));
  PipelineTimes times;
  perform(core, make_fingerprint(Operation::kAllReduce, dtype, job.count, {}),
          /*timeout=*/{}, &shared, sizeof shared, [&](CollectiveCall& call) {
            times = Pipeline(call, job, plan).run();
          });
  return times;
}

class PipelineStages : public testing::TestWithParam<Hosts> {
 protected:
  template <class Check>
  static void for_each_case(const Check& check) {
    run_threads(GetParam(), [&](const Group& group) {
      for (const PipelinePlan& plan : stage_plans(group))
        for (const MemoryOfRank memory : kStageMemories)
          for (const std::size_t count : kStageCounts) {
            SCOPED_TRACE(testing::Message()
                         << "rank " << group.rank() << ", " << count
                         << " elements, " << plan.lanes << " lanes"
                         << (plan.is_flat ? ", flat" : ""));
            check(group, StageCase{count, memory(group.rank()), plan});
          }
    });
  }
};

TEST_P(PipelineStages, AllReduceLeavesTheSumOnEveryRank) {
  for_each_case([](const Group& group, const StageCase& it) {
    const auto mine =
        exact_data(DType::kI32, ReduceOp::kSum, group.rank(), it.count);
    const test::Elements input(group, it.memory, DType::kI32, mine);
    const test::Elements output(group, it.memory, DType::kI32, it.count);
    run_stages(group,
               {.input = input.data(),
                .output = output.data(),
                .count = it.count,
                .reduction = {.dtype = DType::kI32}},
               it.plan);
    EXPECT_TRUE(output.holds(test::exact_result(DType::kI32, ReduceOp::kSum,
                                                group.size(), it.count)));
    EXPECT_TRUE(input.holds(mine)) << "the input has changed";
  });
}

// Divided once: within a host if it is the only one, else by the exchange.
TEST_P(PipelineStages, AveragesAreDividedOnce) {
  for_each_case([](const Group& group, const StageCase& it) {
    const test::Elements data(
        group, it.memory, DType::kF64,
        exact_data(DType::kF64, ReduceOp::kAvg, group.rank(), it.count));
    run_stages(group,
               {.input = data.data(),
                .output = data.data(),
                .count = it.count,
                .reduction = {.dtype = DType::kF64,
                              .op = ReduceOp::kAvg,
                              .divisor = group.size()}},
               it.plan);
    EXPECT_TRUE(data.holds(test::exact_result(DType::kF64, ReduceOp::kAvg,
                                              group.size(), it.count)));
  });
}

// The other ranks have no output, and collect in memory of their own.
TEST_P(PipelineStages, ReduceWritesTheOutputOfTheRoot) {
  for_each_case([](const Group& group, const StageCase& it) {
    for (const int root : {0, group.size() - 1}) {
      const bool is_root = group.rank() == root;
      const auto mine =
          exact_data(DType::kI32, ReduceOp::kSum, group.rank(), it.count);
      const test::Elements input(group, it.memory, DType::kI32, mine);
      const test::Elements output(group, it.memory, DType::kI32, it.count);
      run_stages(group,
                 {.flow = Flow::kReduce,
                  .root = root,
                  .input = input.data(),
                  .output = is_root ? output.data() : nullptr,
                  .count = it.count,
                  .reduction = {.dtype = DType::kI32}},
                 it.plan);
      if (is_root) {
        EXPECT_TRUE(output.holds(test::exact_result(DType::kI32, ReduceOp::kSum,
                                                    group.size(), it.count)));
      }
      EXPECT_TRUE(input.holds(mine)) << "the input has changed, root " << root;
    }
  });
}

TEST_P(PipelineStages, BroadcastCopiesTheBufferOfTheRoot) {
  for_each_case([](const Group& group, const StageCase& it) {
    for (const int root : {0, group.size() - 1}) {
      const test::Elements data(
          group, it.memory, DType::kI32,
          exact_data(DType::kI32, ReduceOp::kSum, group.rank(), it.count));
      run_stages(group,
                 {.flow = Flow::kBroadcast,
                  .root = root,
                  .input = data.data(),
                  .output = data.data(),
                  .count = it.count,
                  .reduction = {.dtype = DType::kI32}},
                 it.plan);
      EXPECT_TRUE(
          data.holds(exact_data(DType::kI32, ReduceOp::kSum, root, it.count)))
          << "root " << root;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, PipelineStages,
                         testing::Values(Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "b"},
                                         Hosts{"a", "b", "b", "a", "b"}),
                         test::joined);

// The times of an all-reduce of 70 segments, by rank.
std::vector<PipelineTimes> stage_times(const Hosts& hosts) {
  std::vector<PipelineTimes> times(hosts.size());
  run_threads(hosts, [&](const Group& group) {
    std::vector<std::int32_t> data(70 * kStageElements, 1);
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    times[static_cast<std::size_t>(group.rank())] =
        run_stages(group,
                   {.input = bytes,
                    .output = bytes,
                    .count = data.size(),
                    .reduction = {.dtype = DType::kI32}},
                   stage_plans(group)[0]);
  });
  return times;
}

// A rank that waits for no message at any of its segments would have none, but
// not both of them.
TEST(PipelineStageTimes, TheTierOfThePlanIsBusyWithItsMessages) {
  std::int64_t busy_ns = 0;
  for (const PipelineTimes& times : stage_times({"a", "b"})) {
    const TierTime& tier = times.tiers[0];
    EXPECT_EQ(times.network_ns, tier.busy_ns);
    EXPECT_LE(tier.busy_ns, tier.last_ns - tier.first_ns);
    EXPECT_EQ(times.tiers[1].busy_ns, 0);
    busy_ns += tier.busy_ns;
  }
  EXPECT_GT(busy_ns, 0);
}

TEST(PipelineStageTimes, OneHostHasNoNetwork) {
  for (const PipelineTimes& times : stage_times({"a", "a"})) {
    EXPECT_GT(times.local_ns, 0);
    EXPECT_EQ(times.network_ns, 0);
    EXPECT_EQ(times.tiers[0].busy_ns, 0);
  }
}

}  // namespace
}  // namespace sheaf::comm
