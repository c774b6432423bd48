#include "sheaf/data/load/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/python.hpp"

namespace sheaf::data {
namespace {

using Indices = std::vector<std::int64_t>;

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Indices natural(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Global batch `batch`, concatenated from the shares of all ranks.
Indices global_batch(std::int64_t size, int ranks, std::int64_t batch,
                     const SamplerOptions& options) {
  Indices all;
  for (int rank = 0; rank < ranks; ++rank) {
    const Sampler sampler(size, rank, ranks, options);
    const Indices share = sampler.share(batch);
    EXPECT_EQ(
        sampler.first_index(batch),
        batch * options.global_batch + static_cast<std::int64_t>(all.size()));
    all.insert(all.end(), share.begin(), share.end());
  }
  EXPECT_EQ(static_cast<std::int64_t>(all.size()),
            Sampler(size, 0, ranks, options).global_size(batch));
  return all;
}

TEST(Sampler, RanksMayHaveUnequalShares) {
  SamplerOptions options{.global_batch = 8, .shares = {5, 0, 3}};
  EXPECT_EQ(Sampler(22, 0, 3, options).share(0).size(), 5u);
  EXPECT_EQ(Sampler(22, 1, 3, options).share(0).size(), 0u);
  EXPECT_EQ(Sampler(22, 2, 3, options).share(0).size(), 3u);
  EXPECT_EQ(Sampler(22, 2, 3, options).share(2).size(), 3u);  // of 6
  const SamplerOptions equal{.global_batch = 8};
  for (const std::int64_t batch : {0, 1, 2})
    EXPECT_EQ(global_batch(22, 3, batch, options),
              global_batch(22, 3, batch, equal));
  EXPECT_THROW(Sampler(22, 0, 2, options), UsageError);
  options.shares = {0, 1, 0};
  EXPECT_EQ(Sampler(22, 1, 3, options).share(0).size(), 8u);
  options.shares = {1, -1, 3};
  EXPECT_THROW(Sampler(22, 0, 3, options), UsageError);
  options.shares = {0, 0, 0};
  EXPECT_THROW(Sampler(22, 0, 3, options), UsageError);
}

TEST(EpochOrder, IsAPermutation) {
  for (const std::int64_t size : {0, 1, 2, 3, 10, 1000})
    EXPECT_EQ(sorted(epoch_order(size, 1, 2)), natural(size));
}

// Recorded values: a resumed run must continue with the same order.
TEST(EpochOrder, NeverChanges) {
  EXPECT_EQ(epoch_order(10, 0, 0), (Indices{0, 4, 5, 1, 3, 9, 6, 7, 8, 2}));
  EXPECT_EQ(epoch_order(10, 1, 7), (Indices{3, 7, 5, 6, 9, 0, 1, 2, 4, 8}));
}

TEST(EpochOrder, DiffersBetweenEpochsAndSeeds) {
  EXPECT_NE(epoch_order(100, 0, 0), epoch_order(100, 0, 1));
  EXPECT_NE(epoch_order(100, 0, 0), epoch_order(100, 1, 0));
  EXPECT_NE(epoch_order(100, 0, 1), epoch_order(100, 1, 0));
}

TEST(EpochOrder, PrefersNoPlace) {
  std::vector<int> counts(5 * 5);
  for (std::int64_t epoch = 0; epoch < 5000; ++epoch) {
    const Indices order = epoch_order(5, 9, epoch);
    for (std::size_t i = 0; i < 5; ++i)
      ++counts[i * 5 + static_cast<std::size_t>(order[i])];
  }
  // 1000 expected, standard deviation 28: the tolerance is seven of them.
  for (const int count : counts) EXPECT_NEAR(count, 1000, 200);
}

TEST(Sampler, EveryExampleComesOnce) {
  for (const std::int64_t size : {0, 1, 7, 64, 101})
    for (const std::int64_t batch : {1, 3, 16, 200})
      for (int ranks = 1; ranks <= 5; ++ranks) {
        const SamplerOptions options{.global_batch = batch, .epoch = 3};
        Indices all;
        const auto batches = Sampler(size, 0, ranks, options).batches();
        EXPECT_EQ(batches, (size + batch - 1) / batch);
        for (std::int64_t b = 0; b < batches; ++b) {
          const Indices one = global_batch(size, ranks, b, options);
          all.insert(all.end(), one.begin(), one.end());
        }
        EXPECT_EQ(sorted(all), natural(size)) << size << " " << batch;
      }
}

TEST(Sampler, AnyNumberOfRanksSeesTheSameBatches) {
  const SamplerOptions options{.global_batch = 8, .seed = 4, .epoch = 2};
  for (std::int64_t batch = 0; batch < 7; ++batch) {
    const Indices alone = Sampler(50, 0, 1, options).share(batch);
    for (int ranks = 2; ranks <= 5; ++ranks)
      EXPECT_EQ(global_batch(50, ranks, batch, options), alone);
  }
}

TEST(Sampler, SharesDifferByAtMostOne) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (const std::int64_t size : {1, 2, 9, 10, 11}) {
      std::size_t least = 100, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Sampler sampler(size, rank, ranks, {.global_batch = 16});
        least = std::min(least, sampler.share(0).size());
        most = std::max(most, sampler.share(0).size());
      }
      EXPECT_LE(most - least, 1u);
    }
  // Two examples for four ranks: the last two ranks get none.
  EXPECT_TRUE(Sampler(2, 3, 4, {.global_batch = 16}).share(0).empty());
}

TEST(Sampler, CanDropTheLastBatch) {
  const SamplerOptions options{.global_batch = 8, .drop_last = true};
  EXPECT_EQ(Sampler(50, 0, 2, options).batches(), 6);
  EXPECT_EQ(Sampler(48, 0, 2, options).batches(), 6);
  EXPECT_EQ(Sampler(7, 0, 2, options).batches(), 0);
  EXPECT_EQ(Sampler(50, 0, 2, options).global_size(5), 8);
}

TEST(Sampler, CanKeepTheOrder) {
  const Sampler sampler(10, 1, 2, {.global_batch = 4, .shuffle = false});
  EXPECT_EQ(sampler.share(0), (Indices{2, 3}));
  EXPECT_EQ(sampler.share(2), (Indices{9}));
}

TEST(Sampler, HonoursTheEpoch) {
  Sampler sampler(100, 0, 1, {.global_batch = 100});
  const Indices before = sampler.share(0);
  sampler.set_epoch(1);
  EXPECT_NE(sampler.share(0), before);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.share(0), before);
}

// Each rank takes its own examples; the global batches stay the same.
TEST(Sampler, RanksCanHaveExamplesOfTheirOwn) {
  auto sites = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 23; ++i) sites->push_back(i % 5 == 0 ? 1 : 0);
  const Sampler whole(23, 0, 1, {.global_batch = 6, .seed = 3});
  std::vector<Sampler> parts;
  for (int rank = 0; rank < 2; ++rank)
    parts.emplace_back(
        23, rank, 2,
        SamplerOptions{.global_batch = 6, .seed = 3, .sites = sites});
  for (std::int64_t batch = 0; batch < whole.batches(); ++batch) {
    std::vector<std::int64_t> together;
    for (int rank = 0; rank < 2; ++rank)
      for (const std::int64_t example :
           parts[static_cast<std::size_t>(rank)].share(batch)) {
        EXPECT_EQ((*sites)[static_cast<std::size_t>(example)], rank);
        together.push_back(example);
      }
    for (const Sampler& part : parts) {
      const auto own = part.share(batch);
      const auto order = whole.share(batch);
      const auto first = own.empty()
                             ? order.end()
                             : std::find(order.begin(), order.end(), own[0]);
      EXPECT_EQ(part.first_index(batch), 6 * batch + (first - order.begin()));
    }
    auto expected = whole.share(batch);
    std::sort(together.begin(), together.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(together, expected);
  }
  sites->back() = 2;
  EXPECT_THROW(Sampler(23, 0, 2, {.global_batch = 6, .sites = sites}),
               UsageError);
  EXPECT_THROW(Sampler(24, 0, 3, {.global_batch = 6, .sites = sites}),
               UsageError);
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Sampler(10, 2, 2, {}), UsageError);
  EXPECT_THROW(Sampler(10, 0, 0, {}), UsageError);
  EXPECT_THROW(Sampler(-1, 0, 1, {}), UsageError);
  EXPECT_THROW(Sampler(10, 0, 1, {.global_batch = 0}), UsageError);
  EXPECT_THROW(Sampler(10, 0, 1, {}).share(10), UsageError);
  EXPECT_THROW(Sampler(10, 0, 1, {}).share(-1), UsageError);
  EXPECT_THROW(Sampler(10, 0, 1, {}).set_epoch(-1), UsageError);
  EXPECT_TRUE(contains(usage_error([] {
                         Sampler(10, 0, 3,
                                 {.global_batch = 8, .order = Order::kPython});
                       }),
                       "3 ranks"));
}

// One line per case: size ranks rank seed epoch shuffle drop, then indices.
const char* const kPythonCases = R"(
import torch.utils.data as data
for size in (1, 2, 10, 25, 1009):
  for ranks in (1, 2, 3, 4):
    for seed, epoch, shuffle, drop in ((0, 0, 1, 0), (5, 3, 1, 0),
                                       (1, 2, 1, 1), (0, 1, 0, 0)):
      if drop and size < ranks: continue
      for rank in range(ranks):
        sampler = data.DistributedSampler(range(size), ranks, rank,
            shuffle=bool(shuffle), seed=seed, drop_last=bool(drop))
        sampler.set_epoch(epoch)
        print(size, ranks, rank, seed, epoch, shuffle, drop, *sampler)
)";

void compare_line(const std::string& line) {
  std::istringstream words(line);
  std::int64_t size = 0, epoch = 0;
  int ranks = 0, rank = 0;
  std::uint64_t seed = 0;
  bool shuffle = false, drop = false;
  words >> size >> ranks >> rank >> seed >> epoch >> shuffle >> drop;
  const Indices expected{std::istream_iterator<std::int64_t>(words), {}};
  const Sampler sampler(size, rank, ranks,
                        {.global_batch = ranks,
                         .seed = seed,
                         .shuffle = shuffle,
                         .drop_last = drop,
                         .order = Order::kPython,
                         .epoch = epoch});
  Indices ours;
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch)
    ours.push_back(sampler.share(batch).at(0));
  EXPECT_EQ(ours, expected) << line.substr(0, 80);
}

// The first ranks take the rows that others would have had alone.
TEST(Sampler, MayAvoidSingleRows) {
  const SamplerOptions options{.global_batch = 8, .avoids_single_rows = true};
  const SamplerOptions plain{.global_batch = 8};
  for (const int ranks : {1, 2, 3, 4, 7})
    for (std::int64_t last = 1; last <= 8; ++last) {
      const std::int64_t size = 8 + last;
      for (const std::int64_t batch : {0, 1})
        EXPECT_EQ(global_batch(size, ranks, batch, options),
                  global_batch(size, ranks, batch, plain));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto rows = Sampler(size, rank, ranks, options).share(1).size();
        EXPECT_TRUE(rows != 1 || last == 1) << ranks << " " << last;
        if (last >= 2 * ranks) {
          EXPECT_EQ(rows, Sampler(size, rank, ranks, plain).share(1).size());
        }
      }
    }
}

TEST(Sampler, MoreExamplesThanMemoryHoldsAreAnError) {
  const std::string text =
      usage_error([] { Sampler(1000000000000000, 0, 1, {}); });
  EXPECT_TRUE(contains(text, "1000000000000000 examples") &&
              contains(text, "memory"))
      << text;
}

TEST(Sampler, ReproducesPythons) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  const std::string text = run_python(python, folder.path(), kPythonCases);
  std::istringstream lines(text);
  int cases = 0;
  for (std::string line; std::getline(lines, line); ++cases) compare_line(line);
  EXPECT_GE(cases, 180);
}

TEST(Sampler, SharesPythonsOrderInBatches) {
  const SamplerOptions options{
      .global_batch = 6, .shuffle = false, .order = Order::kPython};
  const Sampler sampler(13, 1, 2, options);
  EXPECT_EQ(sampler.batches(), 3);
  EXPECT_EQ(sampler.share(0), (Indices{1, 3, 5}));
  EXPECT_EQ(sampler.share(2), (Indices{0}));
  EXPECT_EQ(sampler.global_size(2), 2);
}

}  // namespace
}  // namespace sheaf::data
