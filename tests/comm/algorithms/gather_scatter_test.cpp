// Gather and scatter of blocks whose sizes only the root knows.

#include <gtest/gtest.h>

#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/group/go_on.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Ending;
using test::Hosts;

class Uneven : public testing::TestWithParam<Hosts> {
 protected:
  const test::ExpectFailures failures_;
};

// Empty blocks, small blocks, and blocks that need several windows.
std::size_t uneven_count(int rank, std::size_t scale) {
  constexpr std::size_t kFactors[] = {3, 0, 1, 5, 2};
  return kFactors[static_cast<std::size_t>(rank) % 5] * scale;
}

std::vector<float> uneven_block(int rank, std::size_t scale) {
  std::vector<float> block(uneven_count(rank, scale));
  std::iota(block.begin(), block.end(), static_cast<float>(1000 * rank));
  return block;
}

struct Everything {
  std::vector<float> data;
  std::vector<std::size_t> counts;
};

Everything all_blocks(int ranks, std::size_t scale) {
  Everything all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto block = uneven_block(rank, scale);
    all.data.insert(all.data.end(), block.begin(), block.end());
    all.counts.push_back(block.size());
  }
  return all;
}

void check_uneven(const Group& group, std::size_t scale,
                  const CollectiveOptions& options, bool in_arena) {
  const bool is_root = group.rank() == options.root;
  const auto all = all_blocks(group.size(), scale);
  const auto mine = uneven_block(group.rank(), scale);
  auto shared = group.allocate<float>(mine.size());
  std::copy(mine.begin(), mine.end(), shared.begin());
  const ConstBuffer input =
      in_arena ? ConstBuffer(shared.data(), mine.size(), DType::kF32)
               : ConstBuffer(mine);
  std::vector<float> output(is_root ? all.data.size() : 0);
  const Counts counts = is_root ? Counts(all.counts) : Counts();
  gatherv(group, input, output, options, counts).wait();
  EXPECT_TRUE(!is_root || output == all.data);

  auto whole = group.allocate<float>(all.data.size());
  std::copy(all.data.begin(), all.data.end(), whole.begin());
  ConstBuffer given;
  if (is_root)
    given = in_arena ? ConstBuffer(whole.data(), all.data.size(), DType::kF32)
                     : ConstBuffer(all.data);
  std::vector<float> block(mine.size());
  scatterv(group, given, block, options, counts).wait();
  EXPECT_EQ(block, mine);
}

TEST_P(Uneven, BlocksArrive) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t scale : {0, 1, 7, 50000})
      for (int root = 0; root < group.size(); ++root)
        for (const bool in_arena : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << "scale " << scale << ", root " << root);
          check_uneven(group, scale, {.root = root}, in_arena);
        }
    check_uneven(group, 1000, {.async = true}, /*in_arena=*/false);
    // The host's counters are still consistent.
    std::vector<float> data(100000, 1);
    all_reduce(group, data).wait();
    EXPECT_EQ(data[99999], static_cast<float>(group.size()));
  });
}

TEST_P(Uneven, CountsThatAreNotTheRanksAreAMismatch) {
  const int ranks = static_cast<int>(GetParam().size());
  for (int odd = 1; odd < ranks; ++odd)
    for (const bool is_scatter : {false, true}) {
      const auto outcomes = test::outcomes(GetParam(), [&](const Group& group) {
        auto all = all_blocks(ranks, 10);
        auto mine = uneven_block(group.rank(), 10);
        if (group.rank() == odd) mine.resize(mine.size() + 7);
        const bool is_root = group.rank() == 0;
        const Counts counts = is_root ? Counts(all.counts) : Counts();
        if (!is_root) all.data.clear();
        if (is_scatter)
          scatterv(group, all.data, mine, {}, counts).wait();
        else
          gatherv(group, mine, all.data, {}, counts).wait();
        test::go_on(group);
      });
      for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
        EXPECT_TRUE(outcome.names(concat("rank ", odd))) << outcome;
        EXPECT_TRUE(outcome.names(concat(uneven_count(odd, 10) * 4 + 28)))
            << outcome;
      }
    }
}

TEST_P(Uneven, IsNotTheSameCallAsEven) {
  const auto outcomes = test::outcomes(GetParam(), [](const Group& group) {
    const std::vector<float> mine;
    std::vector<float> all;
    const std::vector<std::size_t> counts(
        static_cast<std::size_t>(group.size()));
    if (group.rank() == 0)
      gatherv(group, mine, all, {}, counts).wait();
    else
      gather(group, mine, all).wait();
    test::go_on(group);
  });
  for (const auto& outcome : outcomes)
    EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
}

TEST(UnevenUsage, TheRootGivesCountsThatFit) {
  run_threads(1, [](const Group& group) {
    std::vector<float> data(4);
    const std::vector<std::size_t> wrong{3};
    const std::vector<std::size_t> right{4};
    std::vector<float> other(4);
    expect_throws<UsageError>(
        [&] { gatherv(group, data, other, {}, {}).wait(); },
        {"root", "size of every rank"});
    expect_throws<UsageError>(
        [&] { scatterv(group, data, other, {}, wrong).wait(); }, {"4", "3"});
    data = {1, 2, 3, 4};
    gatherv(group, data, other, {}, right).wait();
    EXPECT_EQ(other, data);
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, Uneven,
                         testing::Values(Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "a", "b", "b", "b"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
