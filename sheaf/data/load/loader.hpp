#pragma once
// Loads the batches of one rank, prefetched by worker threads.
//
//   data::Loader loader(train_set, world, {.batch_size = 64, .workers = 2});
//   for (auto& batch : loader) { ... }   // each loop runs one epoch

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/load/sampler.hpp"
#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

struct LoaderOptions {
  // Exactly one of the two must be set: examples per batch and rank, or
  // examples per batch over all ranks.
  std::int64_t batch_size = 0;
  std::int64_t global_batch = 0;
  int workers = 1;          // threads; 0: load batches in the calling thread
  int prefetch = 2;         // batches to prefetch per worker
  bool pin_memory = false;  // for copies to a GPU; no effect without CUDA
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
  Order order = Order::kSheaf;
  Sites sites = {};
  std::vector<std::int64_t> shares = {};  // see SamplerOptions
  bool avoids_single_rows = false;        // see SamplerOptions
  TransformPtr transform = nullptr;
  // Converts data that is still bytes after the transform to float32 in [0, 1].
  bool to_float = true;
  // The part of each transformed image that this rank needs; null: all of it.
  // If possible, only that part is read. Targets with one element per pixel are
  // cut in the same way.
  TileOf tile = nullptr;
};

// Batches do not depend on the number of workers, and global batches do not
// depend on the number of ranks. All ranks get the same number of batches, so
// that each can participate in every exchange; a rank's share of a batch may be
// empty. Keeps the dataset and the transform, but not the group. Not
// thread-safe; loaders of one dataset may be used on different threads. A batch
// is valid until the loop advances, its tensors as long as they are kept. A
// loader that was moved from may only be destroyed or assigned to; other uses
// throw UsageError.
class Loader {
  struct State;

 public:
  // Throws UsageError unless exactly one of batch_size and global_batch is set.
  Loader(std::shared_ptr<const Dataset> dataset, int rank, int ranks,
         LoaderOptions options);
  // The ranks of `group` get different examples. If ranks share images, pass
  // the group that SpatialParallel::samples() returns.
  Loader(std::shared_ptr<const Dataset> dataset, const comm::Group& group,
         LoaderOptions options);
  Loader(Loader&& other) noexcept;
  Loader& operator=(Loader&& other) noexcept;
  ~Loader();

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;

    Batch& operator*() const;
    Batch* operator->() const { return &**this; }
    // Throws UsageError if the epoch has ended.
    Iterator& operator++();
    // Only for comparison with end().
    bool operator==(const Iterator& other) const {
      return state_ == other.state_;
    }

   private:
    friend class Loader;
    explicit Iterator(State* state) : state_(state) {}
    State* state_;
  };

  // begin() starts an epoch; epoch() increases after its last batch. A loop
  // that was left early also ends its epoch: the next begin() starts the next
  // one. An exception in a worker, such as an unreadable file, is rethrown in
  // place of its batch. Iterators stay valid when the loader is moved, and end
  // with the loader that it was moved to.
  Iterator begin();
  Iterator end() { return Iterator(nullptr); }

  // The next loop runs this epoch, from its first batch.
  void set_epoch(std::int64_t epoch);
  // The next loop starts at this batch of its epoch. To resume, call
  // set_epoch() and start_at() with the saved epoch() and position().
  void start_at(std::int64_t batch);
  // The current epoch, or the one that the next loop will run.
  std::int64_t epoch() const;
  // The number of batches of that epoch returned so far.
  std::int64_t position() const;

  std::int64_t batches() const;
  std::int64_t global_batch() const;
  // The shape of one whole example after the transform.
  std::vector<std::int64_t> example_shape() const;
  // Describes what a rank reads for its tile: "tiles of mapped files", or
  // "whole images and cuts its tile: resize needs them".
  std::string reading() const;
  const Dataset& dataset() const;

 private:
  State& state() const;  // throws UsageError if the loader was moved from

  std::unique_ptr<State> state_;
};

}  // namespace sheaf::data
