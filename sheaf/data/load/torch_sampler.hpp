#pragma once
// Sheaf's order and shares for the data loaders of libtorch.
//
//   auto loader = torch::data::make_data_loader(
//       dataset, TorchSampler(size, world, {.global_batch = 256}),
//       torch::data::DataLoaderOptions(256 / world.size()));

#include <torch/data/samplers/base.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/load/sampler.hpp"

namespace sheaf::data {

using TorchSamplerBase = torch::data::samplers::Sampler<>;
// The types of optional values, which depend on the libtorch version.
template <class Value>
Value torch_sampler_argument(void (TorchSamplerBase::*)(Value));
using MaybeSize = decltype(torch_sampler_argument(&TorchSamplerBase::reset));
using MaybeIndices = decltype(std::declval<TorchSamplerBase&>().next(1));

// Gives the examples of one rank to torch::data::make_data_loader(): the shares
// that Sheaf's Loader takes from the same SamplerOptions, one after another in
// the order of the epoch. If the loader's batch size is the share of this rank
// in a global batch, its batches are those of Sheaf's Loader.
//
// The first reset() begins epoch `options.epoch`, and each later one the next
// epoch, unless set_epoch() specified another. A loader calls reset() at the
// start of each loop over it, and owns its sampler, so each loop runs one epoch
// as with Sheaf's Loader.
//
// With Order::kSheaf every example is used exactly once per epoch, and the
// numbers of examples of two ranks may differ (by at most one per global
// batch). For equal numbers, as collectives in every step need, use a global
// batch that is a multiple of the number of ranks with drop_last, or
// Order::kPython, which pads. Copies are independent. Not thread-safe; libtorch
// calls a sampler from the thread that iterates. Does not keep the group.
class TorchSampler : public TorchSamplerBase {
 public:
  // `size` is the number of examples on all ranks together. Throws UsageError
  // as the constructor of Sampler does.
  TorchSampler(std::int64_t size, int rank, int ranks, SamplerOptions options);
  TorchSampler(std::int64_t size, const comm::Group& group,
               SamplerOptions options);

  // The next reset() begins this epoch.
  void set_epoch(std::int64_t epoch);
  // The current epoch.
  std::int64_t epoch() const { return sampler_.epoch(); }
  // The number of examples of this rank in the current epoch.
  std::int64_t size() const;

  // `new_size` replaces the number of examples on all ranks.
  void reset(MaybeSize new_size = {}) override;
  // Up to `batch_size` indices, fewer at the end of the epoch; then nothing.
  MaybeIndices next(std::size_t batch_size) override;

  // Stores and restores the epoch and the position in it; once next() has
  // returned nothing, that is the beginning of the next epoch. The sampler that
  // loads must have the same size, ranks and options; a position outside the
  // epoch causes UsageError. The first reset() after load() keeps the position,
  // so that a new loader continues where the stored sampler was.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  // Begins an epoch.
  void begin(std::int64_t epoch);

  std::int64_t examples_;
  int rank_;
  int ranks_;
  SamplerOptions options_;
  data::Sampler sampler_;
  std::vector<std::size_t> indices_;  // of this rank, in the current epoch
  std::size_t position_ = 0;
  bool has_ended_ = false;  // next() has returned nothing in this epoch
  // What the next reset() does: begin this epoch; otherwise keep the position;
  // otherwise begin the next epoch.
  std::optional<std::int64_t> next_epoch_;
  bool keeps_position_ = true;
};

}  // namespace sheaf::data
