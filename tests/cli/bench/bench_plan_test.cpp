#include "sheaf/cli/bench/bench_plan.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::cli {
namespace {

using Sizes = std::vector<std::uint64_t>;

void expect_fault(const BenchArgs& args, const std::string& told) {
  expect_throws<UsageError>([&] { plan_bench(args); }, {told});
}

TEST(BenchPlan, NamesMayHaveUnderscores) {
  for (const char* name :
       {"reducescatter", "reduce_scatter", "Reduce-Scatter"}) {
    const BenchPlan plan = plan_bench({.what = name});
    EXPECT_EQ(plan.operation, comm::Operation::kReduceScatter);
    EXPECT_EQ(plan.name, "reducescatter");
  }
}

TEST(BenchPlan, EverySubjectIsFound) {
  EXPECT_EQ(plan_bench({.what = "idle"}).subject, Subject::kIdle);
  EXPECT_EQ(plan_bench({.what = "guard"}).subject, Subject::kGuard);
  EXPECT_EQ(plan_bench({.fit = "machine.json"}).subject, Subject::kFit);
  EXPECT_EQ(plan_bench({.what = "sendrecv"}).operation, comm::Operation::kSend);
}

TEST(BenchPlan, ABarrierHasOneRow) {
  EXPECT_EQ(plan_bench({.what = "barrier"}).sizes, Sizes{0});
}

TEST(BenchPlan, SizesEndWithTheEnd) {
  EXPECT_EQ(sweep_sizes(8, 64, 2), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sweep_sizes(8, 100, 4), (Sizes{8, 32, 100}));
  EXPECT_EQ(sweep_sizes(1, 4, 1.1), (Sizes{1, 2, 3, 4}));
  EXPECT_EQ(sweep_sizes(8, 8, 2), Sizes{8});
}

TEST(BenchPlan, LinksAreReadInBits) {
  EXPECT_DOUBLE_EQ(parse_link_gbs("1gbit"), 0.125);
  EXPECT_DOUBLE_EQ(parse_link_gbs("10Gbit/s"), 1.25);
  EXPECT_DOUBLE_EQ(parse_link_gbs("800mbit"), 0.1);
  for (const char* text : {"", "fast", "1", "-1gbit", "1 byte", "0gbit"})
    EXPECT_THROW(parse_link_gbs(text), UsageError) << text;
}

TEST(BenchPlan, TheLinkSetsTheNetworkOfTheMachine) {
  const BenchPlan plan = plan_bench({.what = "allreduce", .link = "1gbit"});
  EXPECT_DOUBLE_EQ(plan.machine.network.bandwidth_gbs, 0.125);
}

TEST(BenchPlan, OperationsWithoutReductionIgnoreTheOp) {
  EXPECT_EQ(plan_bench({.what = "broadcast", .op = "avg"}).op,
            comm::ReduceOp::kSum);
}

TEST(BenchPlan, EachUsageErrorIsReported) {
  expect_fault({}, "choose what to measure");
  expect_fault({.what = "allreduc"}, "did you mean 'allreduce'");
  expect_fault({.what = "allreduce", .begin = "10", .end = "8"}, "-e 8");
  expect_fault({.what = "allreduce", .factor = 1}, "-f is 1");
  expect_fault({.what = "allreduce", .dtype = "f33"}, "'f33'");
  expect_fault({.what = "allreduce", .op = "band"}, "--op band");
  expect_fault({.what = "allreduce", .root = -1}, "--root is -1");
  expect_fault({.what = "allreduce", .buffer = "heap"}, "'heap'");
  expect_fault({.what = "allreduce", .warmup = -1}, "--warmup is -1");
  expect_fault({.what = "allreduce", .iterations = -1}, "--iterations is -1");
  expect_fault({.what = "allreduce", .rotate = -1}, "--rotate is -1");
  expect_fault({.what = "allreduce", .algorithm = "rong"}, "'rong'");
  expect_fault({.what = "allreduce", .mode = "c:2"}, "mode c");
  expect_fault({.what = "allreduce", .versus = "nccl"}, "'nccl'");
  expect_fault({.what = "allreduce", .json = true, .csv = true}, "--csv");
  expect_fault({.what = "allreduce", .fit = "m.json"}, "--fit");
}

TEST(BenchPlan, MissingFeaturesOfTheOtherLibraryAreReported) {
  expect_fault({.what = "allreduce", .op = "avg", .versus = "mpi"}, "avg");
  expect_fault({.what = "allreduce", .dtype = "bf16", .versus = "mpi"}, "bf16");
  expect_fault({.what = "allreduce", .versus = "mpi,mpi"}, "twice");
}

}  // namespace
}  // namespace sheaf::cli
