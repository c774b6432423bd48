#include "sheaf/comm/ddl/checked_all_reduce.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "sheaf/comm/ddl/dump.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/ddl/damaged_all_reduce.hpp"
#include "tests/comm/ddl/dump_folder.hpp"
#include "tests/support/exact.hpp"

namespace sheaf::comm {
namespace {

using test::errors_of_damage;
using test::kTwoHosts;

TEST(Check, LetsARightResultPass) {
  const test::DumpFolder folder;
  EXPECT_TRUE(errors_of_damage(kTwoHosts, 1000, 0).empty());
  EXPECT_TRUE(folder.names().empty());
}

TEST(Check, EveryRankHearsOfTheSameError) {
  const test::DumpFolder folder;
  const auto errors = errors_of_damage(kTwoHosts, 1000, 0.5f);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_EQ(errors[0], errors[2]);
  for (const char* part :
       {"element 500 on rank 1", "6.5 instead of 6", "1 elements on 1 of 3",
        "1 (rank 0), 2 (rank 1), 3 (rank 2)", "sheaf.dump.1.1"})
    EXPECT_NE(errors[0].find(part), std::string::npos)
        << part << " in: " << errors[0];
}

TEST(Check, EveryRankWritesItsDump) {
  const test::DumpFolder folder;
  errors_of_damage(kTwoHosts, 1000, 0.5f);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"sheaf.dump.0.1", "sheaf.dump.1.1",
                                      "sheaf.dump.2.1"}));
  const Dump dump = read_dump(folder.file("sheaf.dump.1.1"));
  EXPECT_EQ(dump.rank, 1);
  EXPECT_EQ(dump.call.operation, Operation::kAllReduce);
  EXPECT_EQ(dump.call.count, 1000u);
  ASSERT_EQ(dump.hosts.size(), 2u);
  EXPECT_EQ(dump.hosts[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(dump.hosts[1].ranks, (std::vector<int>{2}));
  EXPECT_EQ(value_at(DType::kF32, dump.input.data(), 0), 2);
  EXPECT_EQ(value_at(DType::kF32, dump.output.data(), 0), 6);
  EXPECT_EQ(value_at(DType::kF32, dump.output.data(), 500), 6.5);
  EXPECT_LE(dump.window_first, 500u);
  EXPECT_GT(dump.window_first + dump.window_count, 500u);
}

// More elements than are gathered at once: 8 MiB over all ranks.
TEST(Check, LooksAtEverySegment) {
  const test::DumpFolder folder;
  const std::size_t count = 3000000;
  const auto errors = errors_of_damage({"a", "a"}, count, 2);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_NE(errors[0].find("element 1500000 on rank 1"), std::string::npos);
}

TEST(Check, TakesSeveralBuffersAsOne) {
  const test::DumpFolder folder;
  std::atomic<int> failures{0};
  run_threads(2, [&](const Group& group) {
    std::vector<double> a(10, 1), b(5, 2);
    const Buffer buffers[] = {a, b};
    try {
      checked(group, buffers, {.operation = Operation::kAllReduceN}, [&] {
        all_reduce_n(group, buffers).wait();
        b[3] = 7;
      });
    } catch (const CheckError& error) {
      ++failures;
      EXPECT_NE(std::string(error.what()).find("element 13 "),
                std::string::npos)
          << error.what();
    }
  });
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(read_dump(folder.file("sheaf.dump.0.1")).counts,
            (std::vector<std::uint64_t>{10, 5}));
}

TEST(Check, NamesNewNan) {
  const test::DumpFolder folder;
  std::atomic<int> failures{0};
  run_threads(2, [&](const Group& group) {
    std::vector<float> data(3, 1);
    const Buffer buffer(data);
    try {
      checked(group, {&buffer, 1}, {}, [&] {
        all_reduce(group, data).wait();
        if (group.rank() == 0) data[2] = std::nanf("");
      });
    } catch (const CheckError& error) {
      ++failures;
      EXPECT_NE(std::string(error.what()).find("new NaN"), std::string::npos);
    }
  });
  EXPECT_EQ(failures, 2);
}

TEST(Check, NanInputsAreNoFailure) {
  const test::DumpFolder folder;
  run_threads(2, [&](const Group& group) {
    std::vector<float> data(3, group.rank() ? std::nanf("") : 1);
    const Buffer buffer(data);
    checked(group, {&buffer, 1}, {}, [&] { all_reduce(group, data).wait(); });
    EXPECT_TRUE(std::isnan(data[0]));
  });
  EXPECT_TRUE(folder.names().empty());
}

TEST(Check, OnlyRankZeroReportsNanInputs) {
  const std::string line =
      "1 of 4 elements have NaN among their inputs, the first is element 2";
  for (const int ranks : {1, 3}) {
    testing::internal::CaptureStderr();
    run_threads(ranks, [](const Group& group) {
      std::vector<float> data{1, 2, std::nanf(""), 4};
      const Buffer buffer(data);
      checked(group, {&buffer, 1}, {}, [&] { all_reduce(group, data).wait(); });
    });
    const std::string text = testing::internal::GetCapturedStderr();
    const std::size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(line, at + 1), std::string::npos) << text;
  }
}

// Correct results of every type and algorithm pass.
TEST(Check, AcceptsEveryTypeAndAlgorithm) {
  const test::DumpFolder folder;
  for (const auto& hosts : {std::vector<std::string>(3, "a"), kTwoHosts})
    run_threads(hosts, [&](const Group& group) {
      for (int type = 0; type < kDTypeCount; ++type)
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
          for (const Algorithm algorithm :
               {Algorithm::kAuto, Algorithm::kRing, Algorithm::kTree}) {
            const auto dtype = static_cast<DType>(type);
            if (!is_defined(op, dtype)) continue;
            const std::size_t count = 5001;
            auto data = test::exact_data(dtype, op, group.rank(), count);
            const Buffer buffer(data.data(), count, dtype);
            checked(group, {&buffer, 1}, {.op = op}, [&] {
              all_reduce(group, buffer, {.op = op, .algorithm = algorithm})
                  .wait();
            });
          }
    });
}

TEST(Check, EmptyBuffersAreRight) {
  run_threads(2, [](const Group& group) {
    std::vector<float> none;
    const Buffer buffer(none);
    checked(group, {&buffer, 1}, {}, [&] { all_reduce(group, none).wait(); });
    checked(group, {}, {}, [] {});
  });
}

TEST(Check, OneRankIsChecked) {
  run_threads(1, [](const Group& group) {
    std::vector<float> data{1, 2};
    const Buffer buffer(data);
    checked(group, {&buffer, 1}, {}, [&] { all_reduce(group, data).wait(); });
    EXPECT_EQ(data[1], 2);
  });
}

}  // namespace
}  // namespace sheaf::comm
