#pragma once
// The ranks over which images are cut, and their exchanges.

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/halo/halo_cache.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/spatial/split/lent_tiles.hpp"
#include "sheaf/spatial/split/parts.hpp"
#include "sheaf/spatial/split/tile_memory.hpp"

namespace sheaf::spatial {

// What an operation has exchanged, for listeners.
struct ExchangeNote {
  // "convolution of 0.weight"; its backward has the suffix ", backward"
  std::string operation;
  std::string cuts;           // of the tensor
  std::string halo;           // the widest on any rank, low and high by axis
  std::int64_t messages = 0;  // sent by this rank
  std::int64_t bytes = 0;
  std::int64_t bytes_in_place = 0;  // of them, read in place by other ranks
  bool is_overlapped = false;
};

// For a parameter with one element per position of an image: which rank owns
// which positions. Known after its first use.
struct Ownership {
  bool is_known = false;
  std::vector<int> cut_axes;  // of the parameter, by axis of the grid
  halo::Tiling layout;
};

class Tiles {
 public:
  // The group must have as many ranks as the grid has tiles. All ranks must
  // create it together. `overlap`: whether convolutions compute while halos are
  // exchanged.
  Tiles(const comm::Group& group, const halo::Grid& grid,
        parallel::Overlap overlap = parallel::Overlap::kAuto);

  const comm::Group& group() const { return group_; }
  const halo::Grid& grid() const { return grid_; }
  int rank() const { return group_.rank(); }
  bool is_overlapping() const { return is_overlapping_; }

  // The exchange that gives each rank the box that it needs of a tensor with
  // that layout. Created at the first call; all ranks must call it in the same
  // order.
  halo::HaloExchange& exchange(const halo::Tiling& layout,
                               const std::vector<halo::Box>& needs,
                               DType dtype) {
    return exchanges_.get(layout, needs, dtype);
  }

  // Memory for results of operations, and the tiles that neighbors are reading.
  const TileMemory& memory() const { return memory_; }
  LentTiles& lent() { return lent_; }

  // Called by the backward of each exchange. Throws UsageError with
  // create_graph, which exchanges do not support.
  void begin_backward() const;

  // Returns the same number on all ranks and a new one at each call. All ranks
  // must call it.
  std::uint64_t next_seed() { return seed_++; }

  // From now on `listener` is called for each exchange; null: no longer.
  // `names` are the names of weights, for notes.
  using Listener = std::function<void(const ExchangeNote&)>;
  using WeightNames = std::map<const c10::TensorImpl*, std::string>;
  void listen(Listener listener, WeightNames names = {}) {
    listener_ = std::move(listener);
    names_ = std::move(names);
  }
  bool is_heard() const { return listener_ != nullptr; }
  void notify(const ExchangeNote& note) const { listener_(note); }
  const WeightNames& weight_names() const { return names_; }

  // From now on each rank computes gradients only for the positions of a
  // parameter that it owns. They are not averaged over the ranks of the grid.
  void own_places(const at::Tensor& parameter) {
    owned_[parameter.unsafeGetTensorImpl()] = {};
  }
  // Null for other parameters.
  Ownership* ownership(const at::Tensor& parameter) {
    const auto found = owned_.find(parameter.unsafeGetTensorImpl());
    return found == owned_.end() ? nullptr : &found->second;
  }

  SpatialStats stats() const;
  void reset_stats();
  void count_reduction(std::int64_t bytes) {
    ++stats_.reductions;
    stats_.reduced_bytes += bytes;
  }

 private:
  comm::Group group_;
  halo::Grid grid_;
  bool is_overlapping_;
  TileMemory memory_;
  halo::HaloCache exchanges_;
  LentTiles lent_;  // must be destroyed first
  std::uint64_t seed_ = 0;
  Listener listener_;
  WeightNames names_;
  std::map<const c10::TensorImpl*, Ownership> owned_;
  SpatialStats stats_;
  SpatialStats before_;  // values at the last reset
  SpatialStats counted() const;
};

}  // namespace sheaf::spatial
