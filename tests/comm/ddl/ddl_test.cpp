#include "sheaf/comm/ddl/ddl.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/ddl/checked_all_reduce.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/ddl/dump_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm::ddl {
namespace {

TEST(Ddl, NeedsInit) {
  EXPECT_FALSE(is_initialized());
  std::vector<float> data{1};
  expect_throws<UsageError>([&] { all_reduce(data); }, {"init()"});
  expect_throws<UsageError>([&] { bcast(data); }, {"init()"});
  expect_throws<UsageError>([] { finalize(); }, {"init()"});
  expect_throws<UsageError>([] { place(); }, {"init()"});
}

TEST(Ddl, OneProcessIsAWorld) {
  const Place here = init("-mode b:1 -dbg_level 0", /*devices=*/2);
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(here.rank, 0);
  EXPECT_EQ(here.size, 1);
  EXPECT_EQ(here.local_size, 1);
  EXPECT_EQ(here.num_hosts, 1);
  EXPECT_EQ(here.device, 0);
  expect_throws<UsageError>([] { init(); }, {"already called"});
  std::vector<float> data{1, 2};
  bcast(data);
  all_reduce(data, {.op = ReduceOp::kAvg, .check = 1});
  all_reduce(data, {.mpi = true});
  const Buffer buffers[] = {data};
  all_reduce_n(buffers);
  EXPECT_EQ(data, (std::vector<float>{1, 2}));
  finalize();
  EXPECT_FALSE(is_initialized());
}

TEST(Ddl, NoDevicesGiveNone) {
  EXPECT_EQ(init().device, -1);
  finalize();
  expect_throws<UsageError>([] { init("", -1); }, {"-1 devices"});
}

TEST(Ddl, WrongOptionsSayWhy) {
  expect_throws<UsageError>([] { init("-mode c:1"); },
                            {"never documented publicly"});
  expect_throws<UsageError>([] { init("-mode b:4x3"); }, {"12", "1"});
  EXPECT_FALSE(is_initialized());
}

TEST(Ddl, EmptyOptionsTakeTheEnvironment) {
  const test::ScopedVariable variable("SHEAF_OPTIONS", "-mode b:2");
  expect_throws<UsageError>([] { init(); }, {"2"});
  EXPECT_EQ(init("-mode b").size, 1);  // overrides SHEAF_OPTIONS
  finalize();
}

TEST(Ddl, AllocatesAligned) {
  init();
  for (const std::size_t alignment : {1, 64, 4096, 1 << 21})
    for (const std::size_t bytes : {0, 1, 1000, 3 << 20}) {
      void* memory = allocate(bytes, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
      std::fill_n(static_cast<char*>(memory), bytes, 'x');
      ddl::free(memory);
    }
  ddl::free(nullptr);
  int elsewhere = 0;
  expect_throws<UsageError>([&] { ddl::free(&elsewhere); }, {"not returned"});
  expect_throws<UsageError>([] { allocate(8, 48); }, {"power of two"});
  finalize();
}

TEST(Ddl, ReducesGroups) {
  run_threads({"a", "a", "b"}, [](const Group& group) {
    for (const double check : {0.0, 1.0}) {
      std::vector<float> data(1000, static_cast<float>(group.rank()));
      all_reduce(group, data, {.check = check});
      EXPECT_EQ(data.back(), 3);
      all_reduce(group, data, {.op = ReduceOp::kAvg, .check = check});
      EXPECT_EQ(data.front(), 3);
      std::vector<float> more(7, 1);
      const Buffer buffers[] = {data, more};
      all_reduce_n(group, buffers, {.check = check});
      EXPECT_EQ(data.back(), 9);
      EXPECT_EQ(more.back(), 3);
    }
  });
}

TEST(Ddl, KnowsSumAndAverageOnly) {
  run_threads(2, [](const Group& group) {
    std::vector<float> data{1};
    expect_throws<UsageError>(
        [&] { ddl::all_reduce(group, data, {.op = ReduceOp::kMax}); },
        {"sum and avg, not max"});
  });
}

TEST(Ddl, PlainMpiNeedsMpi) {
  run_threads(2, [](const Group& group) {
    std::vector<float> data{1};
    expect_throws<UsageError>([&] { all_reduce(group, data, {.mpi = true}); },
                              {"mpi=true needs MPI"});
    const Group alone = group.new_group({0});
    if (!alone.is_member()) return;
    expect_throws<UsageError>([&] { all_reduce(alone, data, {.mpi = true}); },
                              {"1 of 2 ranks"});
  });
}

TEST(Ddl, WrongCheckIsAUsageError) {
  run_threads(2, [](const Group& group) {
    std::vector<float> data{1};
    expect_throws<UsageError>([&] { all_reduce(group, data, {.check = -0.5}); },
                              {"check is -0.5"});
  });
}

// A failed call can be repeated: the group has not failed.
TEST(Ddl, FailedCheckLeavesTheGroupWorking) {
  const test::DumpFolder folder;
  std::atomic<int> failures{0};
  run_threads(2, [&](const Group& group) {
    std::vector<float> data{0.1f};
    if (group.rank()) data[0] = 0.33333f;
    try {
      all_reduce(group, data, {.check = 1e-12});
    } catch (const CheckError&) {
      ++failures;
    }
    all_reduce(group, data, {.check = 1});
  });
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(folder.names().size(), 2u);
}

}  // namespace
}  // namespace sheaf::comm::ddl
