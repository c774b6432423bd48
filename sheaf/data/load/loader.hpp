#pragma once
// Batches of a dataset for one rank, made by worker threads ahead of time.
//
//   data::Loader loader(train_set, world, {.batch_size = 64, .workers = 2});
//   for (auto& batch : loader) { ... }   // one epoch; the next loop, the next

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

class Prefetcher;

struct LoaderOptions {
  // One of the two: examples of this rank's batch, or of all ranks' together.
  std::int64_t batch_size = 0;
  std::int64_t global_batch = 0;
  int workers = 1;          // threads; 0: batches are made when asked for
  int prefetch = 2;         // batches ahead for each worker
  bool pin_memory = false;  // for copies to a GPU; nothing without CUDA
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
  Order order = Order::kSheaf;
  Sites sites = {};
  std::vector<std::int64_t> shares = {};  // as SamplerOptions has them
  bool avoids_single_rows = false;        // the same
  TransformPtr transform = nullptr;
  // Bytes that are left after the transform become float32 from 0 to 1.
  bool to_float = true;
  // The part of each image, after the transform, that this rank is to get;
  // null: all of it. Where it can be, nothing else is read. Of targets with an
  // element for each pixel it gets the same part.
  TileOf tile = nullptr;
};

// The batches do not depend on the number of workers, and the global batches
// not on the number of ranks. All ranks get the same number of batches, so
// that each can take part in every exchange; a share may be empty. For one
// thread at a time.
class Loader {
 public:
  // UsageError unless exactly one of batch_size and global_batch is given.
  Loader(std::shared_ptr<const Dataset> dataset, int rank, int ranks,
         LoaderOptions options);
  // The ranks of `group` get different examples. Where ranks share images, give
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

    Batch& operator*() const { return loader_->current_; }
    Batch* operator->() const { return &loader_->current_; }
    Iterator& operator++();
    // Only the end is equal to the end.
    bool operator==(const Iterator& other) const {
      return loader_ == other.loader_;
    }

   private:
    friend class Loader;
    explicit Iterator(Loader* loader) : loader_(loader) {}
    Loader* loader_;
  };

  // begin() starts an epoch. After its last batch epoch() is one higher. A
  // loop that was broken off counts as its epoch, too: the next begin() goes on
  // to the next one. What went wrong in a worker (an unreadable file) is thrown
  // where its batch would have come.
  Iterator begin();
  Iterator end() { return Iterator(nullptr); }

  // The next loop runs this epoch, from its first batch.
  void set_epoch(std::int64_t epoch);
  // The next loop begins with this batch of its epoch: to resume, call
  // set_epoch(epoch) and start_at(position) with what they were.
  void start_at(std::int64_t batch);
  // The epoch that runs, or that the next loop will run.
  std::int64_t epoch() const { return sampler_.epoch(); }
  // How many batches of that epoch were handed out.
  std::int64_t position() const { return position_; }

  std::int64_t batches() const { return sampler_.batches(); }
  std::int64_t global_batch() const { return global_batch_; }
  // Of one example, after the transform, whole.
  std::vector<std::int64_t> example_shape() const;
  // What a rank reads for its tile: "tiles of mapped files", or "whole images
  // and cuts its tile: resize needs them".
  std::string reading() const;
  const Dataset& dataset() const { return *dataset_; }

 private:
  bool advance();
  void end_epoch();

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::int64_t global_batch_;
  Sampler sampler_;
  std::int64_t position_ = 0;
  bool is_running_ = false;
  Batch current_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace sheaf::data
