#include "sheaf/comm/algorithms/pipeline_buffers.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Elements;
using test::Hosts;
using test::Memory;

constexpr std::size_t kElements = 1000;  // in 4 segments of 256

PipelinePlan plan_of(const Group& group) {
  PipelinePlan plan;
  plan.lanes = group.core().host_map().widest_host();
  plan.segment_bytes = 256 * sizeof(std::int32_t);
  return plan;
}

// Calls check(buffers) within a call of the group.
template <class Check>
void with_buffers(const Group& group, const PipelineJob& job, Check check) {
  GroupCore& core = group.core();
  const PipelinePlan plan = plan_of(group);
  const SharedBuffers shared = core.runtime().memory().shared(
      job.input, job.output, job.count * sizeof(std::int32_t));
  perform(core,
          make_fingerprint(Operation::kAllReduce, DType::kI32, job.count, {}),
          /*timeout=*/{}, &shared, sizeof shared, [&](CollectiveCall& call) {
            PipelineBuffers buffers(call, job, plan, core.host_map());
            check(buffers);
          });
}

PipelineJob job_of(const Elements& data) {
  return {.input = data.data(),
          .output = data.data(),
          .count = kElements,
          .reduction = {.dtype = DType::kI32}};
}

TEST(PipelineBuffers, ChunksAreWholeLinesAndCoverTheBuffer) {
  run_threads(Hosts{"a", "a", "a", "b"}, [](const Group& group) {
    const Elements data(group, Memory::kArena, DType::kI32, kElements);
    with_buffers(group, job_of(data), [&](PipelineBuffers& buffers) {
      ASSERT_EQ(buffers.segments(), 4u);
      std::size_t next = 0;
      for (std::size_t segment = 0; segment < 4; ++segment)
        for (int lane = 0; lane < 3; ++lane) {
          const Range chunk = buffers.chunk_of(segment, lane);
          EXPECT_EQ(chunk.begin, next);
          next += chunk.count;
          EXPECT_TRUE(next % 16 == 0 || next == kElements) << next;
        }
      EXPECT_EQ(next, kElements);
    });
  });
}

TEST(PipelineBuffers, OneHostWithArenaBuffersHasOneSegment) {
  run_threads(2, [](const Group& group) {
    const Elements data(group, Memory::kArena, DType::kI32, kElements);
    with_buffers(group, job_of(data), [&](PipelineBuffers& buffers) {
      EXPECT_FALSE(buffers.is_staged());
      EXPECT_EQ(buffers.segments(), 1u);
      const Range all{0, kElements};
      EXPECT_EQ(buffers.source(group.rank(), 0, all), data.data());
      EXPECT_EQ(buffers.target(group.rank(), 0, all), data.data());
      EXPECT_EQ(buffers.work(0, all), data.data());
      EXPECT_EQ(buffers.bytes(all), 4 * kElements);
    });
  });
}

// One plain buffer is enough, also for the ranks whose buffers are shared.
TEST(PipelineBuffers, APlainBufferOfAnyMemberIsStaged) {
  run_threads(2, [](const Group& group) {
    const Memory memory = group.rank() == 0 ? Memory::kPlain : Memory::kArena;
    const Elements data(group, memory, DType::kI32, kElements);
    with_buffers(group, job_of(data), [&](PipelineBuffers& buffers) {
      EXPECT_TRUE(buffers.is_staged());
      EXPECT_EQ(buffers.segments(), 4u);
      const Range range{256 + 16, 16};
      const int other = 1 - group.rank();
      std::byte* const mine = buffers.staging(1, range);
      EXPECT_EQ(mine, group.core().local().staging(group.rank(), 1) + 16 * 4);
      EXPECT_EQ(buffers.target(group.rank(), 1, range), mine);
      EXPECT_EQ(buffers.source(other, 1, range),
                group.core().local().staging(other, 1) + 16 * 4);
      // A rank reads its own input where it is.
      EXPECT_EQ(buffers.source(group.rank(), 1, range), buffers.input(range));
      EXPECT_EQ(buffers.input(range), data.data() + range.begin * 4);
      EXPECT_EQ(buffers.output(range), data.data() + range.begin * 4);
    });
  });
}

TEST(PipelineBuffers, OnlyTheRootOfAReduceIsATarget) {
  run_threads(3, [](const Group& group) {
    const Elements data(group, Memory::kArena, DType::kI32, kElements);
    PipelineJob job = job_of(data);
    job.flow = Flow::kReduce;
    job.root = 1;
    if (group.rank() != 1) job.output = nullptr;
    with_buffers(group, job, [&](PipelineBuffers& buffers) {
      for (int member = 0; member < 3; ++member) {
        EXPECT_TRUE(buffers.is_source(member));
        EXPECT_EQ(buffers.is_target(member), member == 1);
      }
      EXPECT_FALSE(buffers.is_staged());
    });
  });
}

TEST(PipelineBuffers, OnlyTheRootOfABroadcastIsASource) {
  run_threads(Hosts{"a", "b", "b"}, [](const Group& group) {
    const Elements data(group, Memory::kArena, DType::kI32, kElements);
    PipelineJob job = job_of(data);
    job.flow = Flow::kBroadcast;
    job.root = 2;
    with_buffers(group, job, [&](PipelineBuffers& buffers) {
      const bool is_other_host = group.rank() == 0;
      EXPECT_FALSE(buffers.is_source(0));
      EXPECT_TRUE(buffers.is_target(0));
      if (is_other_host) return;
      EXPECT_TRUE(buffers.is_source(1));
      EXPECT_FALSE(buffers.is_target(1));
    });
  });
}

// Segments in progress at the same time have places of their own.
TEST(PipelineBuffers, WorksInMemoryOfItsOwnWithoutAnOutput) {
  run_threads(Hosts{"a", "b"}, [](const Group& group) {
    const Elements data(group, Memory::kPlain, DType::kI32, kElements);
    PipelineJob job = job_of(data);
    job.flow = Flow::kReduce;
    if (group.rank() != 0) job.output = nullptr;
    with_buffers(group, job, [&](PipelineBuffers& buffers) {
      if (group.rank() == 0) return;
      std::byte* const first = buffers.work(0, {0, 256});
      EXPECT_NE(first, data.data());
      EXPECT_EQ(buffers.work(0, {16, 16}), first + 16 * 4);
      EXPECT_EQ(buffers.work(1, {256, 256}), first + 256 * 4);
      EXPECT_EQ(buffers.work(3, {768, 232}), first + 768 * 4);
    });
  });
}

}  // namespace
}  // namespace sheaf::comm
