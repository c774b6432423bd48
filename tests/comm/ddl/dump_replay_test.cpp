#include "sheaf/comm/ddl/dump_replay.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "tests/comm/ddl/damaged_all_reduce.hpp"
#include "tests/comm/ddl/dump_folder.hpp"

namespace sheaf::comm {
namespace {

using test::errors_of_damage;
using test::kTwoHosts;

TEST(Replay, AllDumpsGiveAllElements) {
  const test::DumpFolder folder;
  errors_of_damage(kTwoHosts, 5000, 0.5f);
  std::vector<Dump> dumps;
  for (const int rank : {1, 0, 2})
    dumps.push_back(read_dump(folder.file(concat("sheaf.dump.", rank, ".1"))));
  const Replay result = replay(dumps);
  EXPECT_TRUE(result.is_whole);
  EXPECT_EQ(result.count, 5000u);
  EXPECT_EQ(result.output.wrong, 1u);
  EXPECT_TRUE(result.replayed.is_good());
  EXPECT_EQ(result.different_bits, 1u);
  ASSERT_EQ(result.wrong.size(), 1u);
  EXPECT_EQ(result.wrong[0].found.element, 2500u);
  EXPECT_EQ(result.wrong[0].replayed, 6);
  EXPECT_EQ(result.wrong[0].inputs, (std::vector<double>{1, 2, 3}));
  EXPECT_NE(result.conclusion(dumps[0]).find("replay agrees"),
            std::string::npos);
}

TEST(Replay, OneDumpGivesTheNeighborsOfTheWorst) {
  const test::DumpFolder folder;
  errors_of_damage(kTwoHosts, 5000, 0.5f);
  const std::vector<Dump> one{read_dump(folder.file("sheaf.dump.1.1"))};
  const Replay result = replay(one);
  EXPECT_FALSE(result.is_whole);
  EXPECT_EQ(result.output.wrong, 1u);
  EXPECT_EQ(result.wrong.at(0).found.element, 2500u);
  const std::vector<Dump> good{read_dump(folder.file("sheaf.dump.2.1"))};
  EXPECT_TRUE(replay(good).output.is_good());
  EXPECT_NE(replay(good).conclusion(good[0]).find("error is on rank 1"),
            std::string::npos);
}

TEST(Replay, RefusesDumpsOfDifferentCalls) {
  const test::DumpFolder folder;
  errors_of_damage(kTwoHosts, 100, 0.5f);
  std::vector<Dump> dumps{read_dump(folder.file("sheaf.dump.0.1")),
                          read_dump(folder.file("sheaf.dump.1.1"))};
  dumps[1].iteration = 2;
  EXPECT_THROW(replay(dumps), UsageError);
  dumps[1] = dumps[0];
  EXPECT_THROW(replay(dumps), UsageError);
  EXPECT_THROW(replay({}), UsageError);
}

// The check is stricter than the type allows, so the replay fails, too.
TEST(Replay, TellsArithmeticFromExchange) {
  const test::DumpFolder folder;
  std::atomic<int> failures{0};
  run_threads(3, [&](const Group& group) {
    std::vector<float> data(1, 0.1f * static_cast<float>(group.rank() + 1));
    const Buffer buffer(data);
    try {
      checked(group, {&buffer, 1}, {.check = 1e-9},
              [&] { all_reduce(group, data).wait(); });
    } catch (const CheckError&) {
      ++failures;
    }
  });
  EXPECT_EQ(failures, 3);
  const std::vector<Dump> one{read_dump(folder.file("sheaf.dump.0.1"))};
  EXPECT_EQ(replay(one).different_bits, 0u);
  EXPECT_NE(replay(one).conclusion(one[0]).find("too narrow"),
            std::string::npos);
}

// The memory behind the elements still holds the last value.
TEST(DumpStatistics, AreOfTheFiniteElements) {
  const float values[] = {3, NAN, -1, INFINITY, 4, 100};
  std::vector<std::byte> data(sizeof values);
  std::memcpy(data.data(), values, sizeof values);
  data.resize(5 * sizeof(float));
  const ElementStatistics found = statistics_of(DType::kF32, data);
  EXPECT_EQ(found.count, 5u);
  EXPECT_EQ(found.nan, 1u);
  EXPECT_EQ(found.infinite, 1u);
  EXPECT_EQ(found.min, -1);
  EXPECT_EQ(found.max, 4);
  EXPECT_EQ(found.mean, 2);
}

TEST(DumpStatistics, OfNothingAreZero) {
  const ElementStatistics found = statistics_of(DType::kF64, {});
  EXPECT_EQ(found.count, 0u);
  EXPECT_EQ(found.min, 0);
  EXPECT_EQ(found.max, 0);
  EXPECT_EQ(found.mean, 0);
}

}  // namespace
}  // namespace sheaf::comm
