#include "sheaf/data/load/torch_sampler.hpp"

#include <gtest/gtest.h>
#include <torch/data.h>
#include <torch/serialize.h>

#include <algorithm>
#include <sstream>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

using Taken = std::vector<std::size_t>;

// All indices of the epoch that reset() begins.
Taken take_epoch(TorchSampler& sampler, std::size_t batch_size) {
  sampler.reset();
  Taken taken;
  while (const auto batch = sampler.next(batch_size)) {
    EXPECT_LE(batch->size(), batch_size);
    taken.insert(taken.end(), batch->begin(), batch->end());
  }
  EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(taken.size()));
  return taken;
}

// The shares of Sheaf's sampler, one after another.
Taken shares(const Sampler& sampler) {
  Taken all;
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch)
    for (const std::int64_t index : sampler.share(batch))
      all.push_back(static_cast<std::size_t>(index));
  return all;
}

TEST(TorchSampler, RanksTakeEveryExampleOnce) {
  for (const int ranks : {1, 2, 3, 4}) {
    Taken all;
    for (int rank = 0; rank < ranks; ++rank) {
      TorchSampler sampler(37, rank, ranks, {.global_batch = 8});
      const Taken taken = take_epoch(sampler, 3);
      all.insert(all.end(), taken.begin(), taken.end());
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), 37u);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
  }
}

TEST(TorchSampler, EqualCounts) {
  const SamplerOptions dropping{.global_batch = 6, .drop_last = true};
  const SamplerOptions padding{.global_batch = 6, .order = Order::kPython};
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(TorchSampler(37, rank, 3, dropping).size(), 12);
    EXPECT_EQ(TorchSampler(37, rank, 3, padding).size(), 13);
  }
}

TEST(TorchSampler, HasTheOrderOfSheafsSamplerInEachEpoch) {
  for (const Order order : {Order::kSheaf, Order::kPython}) {
    const SamplerOptions options{
        .global_batch = 6, .seed = 3, .order = order, .epoch = 2};
    TorchSampler sampler(31, 1, 3, options);
    Sampler want(31, 1, 3, options);
    for (const std::int64_t epoch : {2, 3, 4}) {
      want.set_epoch(epoch);
      EXPECT_EQ(take_epoch(sampler, 2), shares(want));
      EXPECT_EQ(sampler.epoch(), epoch);
    }
    sampler.set_epoch(9);
    want.set_epoch(9);
    EXPECT_EQ(take_epoch(sampler, 5), shares(want));
    EXPECT_EQ(sampler.epoch(), 9);
  }
  EXPECT_THROW(TorchSampler(3, 0, 1, {}).set_epoch(-1), UsageError);
}

TEST(TorchSampler, ANewSizeChangesTheExamples) {
  TorchSampler sampler(10, 1, 2, {.global_batch = 2, .shuffle = false});
  sampler.reset(6);
  EXPECT_EQ(sampler.size(), 3);
  EXPECT_EQ(*sampler.next(8), (Taken{1, 3, 5}));
  EXPECT_FALSE(sampler.next(8).has_value());
  sampler.reset();
  EXPECT_EQ(sampler.size(), 3);
  EXPECT_EQ(sampler.epoch(), 1);
}

void copy_state(const TorchSampler& from, TorchSampler& to) {
  torch::serialize::OutputArchive out;
  from.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  to.load(in);
}

TEST(TorchSampler, ContinuesAfterLoad) {
  const SamplerOptions options{.global_batch = 4, .seed = 1};
  TorchSampler first(20, 0, 2, options);
  const Taken whole = take_epoch(first, 3);
  first.reset();
  const Taken head = *first.next(4);
  EXPECT_NE(head, Taken(whole.begin(), whole.begin() + 4));
  TorchSampler second(20, 0, 2, options);
  copy_state(first, second);
  second.reset();  // of the new loader: keeps the position
  EXPECT_EQ(second.epoch(), 1);
  EXPECT_EQ(*second.next(100), *first.next(100));
  copy_state(first, second);  // nothing is left, but epoch 1 has not ended
  second.reset();
  EXPECT_EQ(second.epoch(), 1);
  EXPECT_FALSE(second.next(3).has_value());
  EXPECT_FALSE(first.next(3).has_value());
  copy_state(first, second);  // epoch 1 has ended
  EXPECT_EQ(take_epoch(second, 3), take_epoch(first, 3));
  EXPECT_EQ(second.epoch(), 2);
  TorchSampler other(4, 0, 2, options);
  first.reset();
  first.next(5);
  EXPECT_THROW(copy_state(first, other), UsageError);
}

TEST(TorchSampler, KeepsTheEpochThatWasSet) {
  TorchSampler first(20, 0, 2, {.global_batch = 4});
  take_epoch(first, 3);
  first.set_epoch(7);
  TorchSampler second(20, 0, 2, {.global_batch = 4});
  copy_state(first, second);
  EXPECT_EQ(take_epoch(second, 3), take_epoch(first, 3));
  EXPECT_EQ(second.epoch(), 7);
}

// After one step rank 1 has no example left, and rank 0 has one.
TEST(TorchSampler, RanksWithUnequalCountsContinueInTheSameEpoch) {
  for (const int rank : {0, 1}) {
    TorchSampler stored(3, rank, 2, {.global_batch = 2});
    TorchSampler loaded(3, rank, 2, {.global_batch = 2});
    stored.reset();
    EXPECT_TRUE(stored.next(1).has_value());
    copy_state(stored, loaded);
    loaded.reset();
    EXPECT_EQ(loaded.epoch(), 0);
    EXPECT_EQ(loaded.next(1).has_value(), rank == 0);
    loaded.reset();
    EXPECT_EQ(loaded.epoch(), 1);
  }
}

TEST(TorchSampler, ARankWithoutExamplesHasTheSameEpochs) {
  TorchSampler stored(1, 1, 2, {.global_batch = 2});
  TorchSampler loaded(1, 1, 2, {.global_batch = 2});
  EXPECT_EQ(stored.size(), 0);
  stored.set_epoch(7);
  copy_state(stored, loaded);
  loaded.reset();
  EXPECT_EQ(loaded.epoch(), 7);
  EXPECT_FALSE(loaded.next(1).has_value());
  copy_state(loaded, stored);
  stored.reset();
  EXPECT_EQ(stored.epoch(), 8);
}

TEST(TorchSampler, TheSameSizeAgainKeepsThePosition) {
  TorchSampler first(20, 0, 2, {.global_batch = 4});
  first.reset();
  first.next(3);
  TorchSampler second(20, 0, 2, {.global_batch = 4});
  copy_state(first, second);
  second.reset(20);
  EXPECT_EQ(second.epoch(), 0);
  EXPECT_EQ(*second.next(100), *first.next(100));
}

// Example i is the number i.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(std::size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {at::full({1}, value), at::full({}, value)};
  }
  MaybeSize size() const override { return 24; }
};

TEST(TorchSampler, ServesAnUnmodifiedDataLoader) {
  for (const std::size_t workers : {0, 2}) {
    const SamplerOptions options{.global_batch = 8};
    auto loader = torch::data::make_data_loader(
        Numbers().map(torch::data::transforms::Stack<>()),
        TorchSampler(24, 1, 2, options),
        torch::data::DataLoaderOptions(4).workers(workers));
    Sampler want(24, 1, 2, options);
    for (const std::int64_t epoch : {0, 1}) {
      want.set_epoch(epoch);
      std::int64_t batch = 0;
      for (const auto& got : *loader) {
        const auto share = want.share(batch++);
        EXPECT_TRUE(got.target.equal(at::tensor(share)));
      }
      EXPECT_EQ(batch, 3);
    }
  }
}

}  // namespace
}  // namespace sheaf::data
