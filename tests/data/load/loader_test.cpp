#include "sheaf/data/load/loader.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "sheaf/data/dataset/synthetic.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

using Indices = std::vector<std::int64_t>;

std::shared_ptr<const Dataset> numbers(std::int64_t size) {
  return std::make_shared<TensorDataset>(at::arange(size, at::kFloat),
                                         at::arange(size));
}

std::vector<Batch> epoch_of(Loader& loader) {
  std::vector<Batch> batches;
  for (Batch& batch : loader) batches.push_back(batch);
  return batches;
}

Indices targets_of(const std::vector<Batch>& batches) {
  Indices all;
  for (const Batch& batch : batches) {
    const auto* first = batch.target.data_ptr<std::int64_t>();
    all.insert(all.end(), first, first + batch.target.numel());
  }
  return all;
}

void expect_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].data, b[i].data)) << i;
    EXPECT_TRUE(at::equal(a[i].target, b[i].target)) << i;
    EXPECT_EQ(a[i].first_index, b[i].first_index);
    EXPECT_EQ(a[i].global_size, b[i].global_size);
  }
}

// Throws for one example, and counts the calls.
class Faulty : public Dataset {
 public:
  explicit Faulty(std::int64_t bad) : bad_(bad) {}
  std::int64_t size() const override { return 100; }
  Batch get(std::span<const std::int64_t> indices, Random&) const override {
    ++calls;
    for (const std::int64_t index : indices)
      if (index == bad_) throw IoError(concat("example ", index, " is broken"));
    const auto count = static_cast<std::int64_t>(indices.size());
    return {at::zeros({count, 1}), at::zeros({count}, at::kLong), 0, count};
  }
  std::int64_t classes() const override { return 1; }
  Indices example_shape() const override { return {1}; }

  mutable std::atomic<int> calls{0};

 private:
  std::int64_t bad_;
};

TEST(Loader, GivesTheSameBatchesWhateverTheWorkers) {
  const auto images = std::make_shared<SyntheticDataset>(
      SyntheticOptions{.examples = 70, .shape = {3, 8, 8}});
  const LoaderOptions options{
      .batch_size = 8,
      .workers = 0,
      .seed = 3,
      .transform = compose(
          {random_crop(8, 8, 2), horizontal_flip(), normalize({0.5}, {0.2})})};
  Loader plain(images, 0, 1, options);
  const std::vector<Batch> first = epoch_of(plain), second = epoch_of(plain);
  ASSERT_EQ(first.size(), 9u);
  EXPECT_EQ(first[8].data.size(0), 6);
  EXPECT_FALSE(at::equal(first[0].data, second[0].data));
  for (int workers = 1; workers <= 4; ++workers)
    for (const int prefetch : {1, 3}) {
      LoaderOptions other = options;
      other.workers = workers;
      other.prefetch = prefetch;
      Loader loader(images, 0, 1, other);
      expect_equal(epoch_of(loader), first);
      expect_equal(epoch_of(loader), second);
    }
}

TEST(Loader, RanksShareTheBatchesOfOne) {
  const auto images = std::make_shared<SyntheticDataset>(
      SyntheticOptions{.examples = 45, .shape = {1, 6, 6}});
  const LoaderOptions options{.global_batch = 10,
                              .transform = random_crop(6, 6, 2)};
  Loader alone(images, 0, 1, options);
  const std::vector<Batch> whole = epoch_of(alone);
  for (int ranks = 2; ranks <= 5; ++ranks) {
    std::vector<std::vector<at::Tensor>> parts(whole.size());
    for (int rank = 0; rank < ranks; ++rank) {
      Loader loader(images, rank, ranks, options);
      const std::vector<Batch> shares = epoch_of(loader);
      ASSERT_EQ(shares.size(), whole.size());
      for (std::size_t i = 0; i < shares.size(); ++i) {
        EXPECT_EQ(shares[i].global_size, whole[i].size());
        parts[i].push_back(shares[i].data);
      }
    }
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(at::equal(at::cat(parts[i]), whole[i].data));
  }
}

TEST(Loader, ARankMayHaveAnEmptyShare) {
  Loader loader(numbers(9), 3, 4, {.batch_size = 2});
  const std::vector<Batch> batches = epoch_of(loader);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].size(), 0);
  EXPECT_EQ(batches[1].global_size, 1);
}

TEST(Loader, EpochsFollowEachOther) {
  Loader loader(numbers(20), 0, 1, {.batch_size = 5});
  EXPECT_EQ(loader.epoch(), 0);
  EXPECT_EQ(targets_of(epoch_of(loader)), epoch_order(20, 0, 0));
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(targets_of(epoch_of(loader)), epoch_order(20, 0, 1));
  loader.set_epoch(0);
  EXPECT_EQ(targets_of(epoch_of(loader)), epoch_order(20, 0, 0));
}

TEST(Loader, ABrokenOffLoopCountsAsItsEpoch) {
  for (const int workers : {0, 1, 3}) {
    Loader loader(numbers(20), 0, 1, {.batch_size = 2, .workers = workers});
    for (Batch& batch : loader) {
      EXPECT_EQ(batch.size(), 2);
      if (loader.position() == 3) break;
    }
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_EQ(targets_of(epoch_of(loader)), epoch_order(20, 0, 1));
    EXPECT_EQ(loader.epoch(), 2);
  }
}

TEST(Loader, EndsWhileWorkersWork) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(numbers(1000), 0, 1, {.batch_size = 1, .workers = 4});
    for (Batch& batch : loader) {
      EXPECT_EQ(batch.size(), 1);
      if (loader.position() > i % 5) break;
    }
  }
}

TEST(Loader, ResumesInTheMiddle) {
  const LoaderOptions options{.batch_size = 3, .workers = 2, .seed = 8};
  Loader loader(numbers(20), 0, 1, options);
  loader.set_epoch(4);
  const std::vector<Batch> whole = epoch_of(loader);
  for (std::int64_t start = 0; start <= loader.batches(); ++start) {
    Loader resumed(numbers(20), 0, 1, options);
    resumed.set_epoch(4);
    resumed.start_at(start);
    EXPECT_EQ(resumed.position(), start);
    expect_equal(epoch_of(resumed), {whole.begin() + start, whole.end()});
    EXPECT_EQ(resumed.epoch(), 5);
    EXPECT_EQ(targets_of(epoch_of(resumed)), epoch_order(20, 8, 5));
  }
  EXPECT_THROW(loader.start_at(8), UsageError);
  EXPECT_THROW(loader.start_at(-1), UsageError);
}

TEST(Loader, ThrowsAWorkersErrorInItsPlace) {
  for (const int workers : {0, 1, 4}) {
    Loader loader(std::make_shared<Faulty>(52), 0, 1,
                  {.batch_size = 10, .workers = workers, .shuffle = false});
    int batches = 0;
    const std::string text = io_error([&] {
      for (const Batch& batch : loader) batches += batch.size() == 10;
    });
    EXPECT_EQ(text, "example 52 is broken");
    EXPECT_EQ(batches, 5) << workers;
  }
}

TEST(Loader, GoesOnAfterAnError) {
  Loader loader(std::make_shared<Faulty>(0), 0, 1,
                {.batch_size = 10, .workers = 2, .shuffle = false});
  EXPECT_NE(io_error([&] { epoch_of(loader); }), "");
  loader.start_at(1);
  EXPECT_EQ(epoch_of(loader).size(), 9u);
}

TEST(Loader, WorksOnlyAsFarAheadAsAllowed) {
  const auto dataset = std::make_shared<Faulty>(-1);
  Loader loader(dataset, 0, 1, {.batch_size = 1, .workers = 2, .prefetch = 3});
  int taken = 0;
  for (const Batch& batch : loader) {
    taken += static_cast<int>(batch.size());
    EXPECT_LE(dataset->calls, taken + 6);
  }
  EXPECT_EQ(dataset->calls, 100);
}

TEST(Loader, MakesFloatsOfBytes) {
  const auto images = std::make_shared<TensorDataset>(
      at::full({2, 1, 1, 1}, 51, at::kByte), at::zeros({2}, at::kLong));
  Loader loader(images, 0, 1, {.batch_size = 2});
  EXPECT_EQ(epoch_of(loader)[0].data.flatten()[0].item<float>(), 51 / 255.0f);
  Loader bytes(images, 0, 1, {.batch_size = 2, .to_float = false});
  EXPECT_EQ(epoch_of(bytes)[0].data.scalar_type(), at::kByte);
}

TEST(Loader, KnowsTheShapeAfterTheTransform) {
  const auto images = std::make_shared<SyntheticDataset>(
      SyntheticOptions{.shape = {3, 10, 10}});
  const Loader loader(
      images, 0, 1,
      {.batch_size = 2,
       .transform = compose({random_crop(8, 7), normalize({0.5}, {1})})});
  EXPECT_EQ(loader.example_shape(), (Indices{3, 8, 7}));
}

TEST(Loader, DropsTheLastBatchOnRequest) {
  Loader loader(numbers(20), 0, 2, {.global_batch = 6, .drop_last = true});
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(epoch_of(loader).size(), 3u);
}

TEST(Loader, TakesPythonsOrder) {
  Loader loader(numbers(10), 1, 2,
                {.batch_size = 2, .shuffle = false, .order = Order::kPython});
  EXPECT_EQ(targets_of(epoch_of(loader)), (Indices{1, 3, 5, 7, 9}));
}

TEST(Loader, CanBeMoved) {
  Loader loader(numbers(20), 0, 1, {.batch_size = 5});
  std::vector<Loader> loaders;
  loaders.push_back(std::move(loader));
  EXPECT_EQ(targets_of(epoch_of(loaders[0])), epoch_order(20, 0, 0));
}

TEST(Loader, ItsIteratorFollowsAMove) {
  Loader loader(numbers(20), 0, 1, {.batch_size = 5, .shuffle = false});
  auto iterator = loader.begin();
  ++iterator;
  Loader moved = std::move(loader);
  EXPECT_EQ(iterator->target[0].item<std::int64_t>(), 5);
  ++iterator;
  EXPECT_EQ(iterator->target[0].item<std::int64_t>(), 10);
  EXPECT_EQ(moved.position(), 3);
  ++iterator;
  ++iterator;
  EXPECT_TRUE(iterator == moved.end());
  EXPECT_THROW(++iterator, UsageError);
  EXPECT_THROW(*iterator, UsageError);
  EXPECT_EQ(moved.epoch(), 1);
}

TEST(Loader, AMovedFromLoaderIsAnError) {
  Loader loader(numbers(20), 0, 1, {.batch_size = 5});
  const Loader moved = std::move(loader);
  EXPECT_THROW(loader.begin(), UsageError);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(loader.epoch(), UsageError);
  loader = Loader(numbers(3), 0, 1, {.batch_size = 5});
  EXPECT_EQ(epoch_of(loader).size(), 1u);
}

TEST(Loader, AnEmptyDatasetHasNoBatches) {
  Loader loader(numbers(0), 0, 1, {.batch_size = 5, .workers = 2});
  EXPECT_EQ(epoch_of(loader).size(), 0u);
  EXPECT_EQ(loader.epoch(), 1);
}

TEST(Loader, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Loader(numbers(5), 0, 1, {}), UsageError);
  EXPECT_THROW(Loader(numbers(5), 0, 1, {.batch_size = 2, .global_batch = 2}),
               UsageError);
  EXPECT_THROW(Loader(numbers(5), 0, 1, {.batch_size = -2}), UsageError);
  EXPECT_THROW(Loader(numbers(5), 0, 1, {.batch_size = 2, .workers = -1}),
               UsageError);
  EXPECT_THROW(Loader(nullptr, 0, 1, {.batch_size = 2}), UsageError);
}

}  // namespace
}  // namespace sheaf::data
