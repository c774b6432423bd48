// The DDL API between real processes: functions that need MPI, and its world.

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/ddl/ddl.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/world.hpp"

namespace sheaf::comm::ddl {
namespace {

TEST(DdlRanks, PlainMpiReduces) {
  const Group& group = test::world();
  for (int type = 0; type < kDTypeCount; ++type)
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
      for (const std::size_t count : {0, 1, 1001}) {
        const auto dtype = static_cast<DType>(type);
        if (!is_defined(op, dtype)) continue;
        auto data = test::exact_data(dtype, op, group.rank(), count);
        all_reduce(group, Buffer(data.data(), count, dtype),
                   {.op = op, .mpi = true});
        EXPECT_EQ(data, test::exact_result(dtype, op, group.size(), count))
            << name_of(dtype) << " " << name_of(op);
      }
}

TEST(DdlRanks, PlainMpiCanBeChecked) {
  const Group& group = test::world();
  std::vector<float> a(1000), b(10);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = 0.1f * static_cast<float>(group.rank() + 1) + static_cast<float>(i);
  const Buffer buffers[] = {a, b};
  all_reduce_n(group, buffers, {.mpi = true, .check = 1});
  all_reduce(group, a, {.op = ReduceOp::kAvg, .mpi = true, .check = 1});
}

TEST(DdlRanks, PlainMpiIsForTheWorld) {
  const Group& group = test::world();
  if (group.size() == 1) GTEST_SKIP() << "a group of one is the world";
  const Group first = group.new_group({0});
  if (!first.is_member()) return;
  std::vector<float> data{1};
  EXPECT_THROW(all_reduce(first, data, {.mpi = true}), UsageError);
}

TEST(DdlRanks, InitGivesEachRankItsPlace) {
  const Group& group = test::world();
  const Place here = init("-mode b", /*devices=*/2);
  EXPECT_EQ(here.rank, group.rank());
  EXPECT_EQ(here.size, group.size());
  EXPECT_EQ(here.local_rank, group.local_rank());
  EXPECT_EQ(here.device, group.local_rank() % 2);
  std::vector<std::int32_t> data(100, here.rank + 1);
  all_reduce(data, {.check = 1});
  EXPECT_EQ(data[0], here.size * (here.size + 1) / 2);
  data.assign(100, here.rank + 7);
  bcast(data);
  EXPECT_EQ(data[99], 7);
  auto* shared = static_cast<float*>(allocate(4000));
  std::fill_n(shared, 1000, 2.0f);
  all_reduce(Buffer(shared, 1000, DType::kF32), {.op = ReduceOp::kAvg});
  EXPECT_EQ(shared[999], 2);
  ddl::free(shared);
  finalize();
}

}  // namespace
}  // namespace sheaf::comm::ddl
