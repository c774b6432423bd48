#pragma once
// The ranks among which images are cut, and their exchanges.

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/halo/halo_cache.hpp"
#include "sheaf/parallel/data/reducer.hpp"
#include "sheaf/spatial/split/lent_tiles.hpp"
#include "sheaf/spatial/split/tile_memory.hpp"

namespace sheaf::spatial {

// Of one rank in the last step, or since reset_stats().
struct SpatialStats {
  std::int64_t halo_exchanges = 0;
  std::int64_t halo_messages = 0;        // sent
  std::int64_t halo_bytes = 0;           // sent
  std::int64_t halo_bytes_in_place = 0;  // of them, read where they lay
  std::int64_t halo_bytes_read = 0;
  std::int64_t reductions = 0;  // all-reduces and gathers
  std::int64_t reduced_bytes = 0;
  double wait_ms = 0;  // for halos
};

// What an operation has sent, for those who ask.
struct ExchangeNote {
  std::string operation;      // "convolution of 0.weight", and its backward
  std::string cuts;           // of the tensor
  std::string halo;           // the widest of any rank, low and high by axis
  std::int64_t messages = 0;  // sent by this rank
  std::int64_t bytes = 0;
  std::int64_t bytes_in_place = 0;  // of them, read by others where they lie
  bool is_overlapped = false;
};

// Of a parameter with an element for each place of an image: which places are
// whose. Known from its first use on.
struct Ownership {
  bool is_known = false;
  std::vector<int> cut_axes;  // of the parameter, by axis of the grid
  halo::Layout layout;
};

class Tiles {
 public:
  // A group of as many ranks as the grid has. All ranks make it together.
  // Overlap: whether convolutions compute while halos travel.
  Tiles(const comm::Group& group, const halo::Grid& grid,
        parallel::Overlap overlap = parallel::Overlap::kAuto);

  const comm::Group& group() const { return group_; }
  const halo::Grid& grid() const { return grid_; }
  int rank() const { return group_.rank(); }
  bool is_overlapping() const { return is_overlapping_; }

  // The exchange by which each rank gets the box that it needs of a tensor with
  // that layout. Made at the first call; all ranks ask in the same order.
  halo::HaloExchange& exchange(const halo::Layout& layout,
                               const std::vector<halo::Box>& needs,
                               DType dtype) {
    return exchanges_.get(layout, needs, dtype);
  }

  // Where operations make their results, and which of them are being read.
  const TileMemory& memory() const { return memory_; }
  LentTiles& lent() { return lent_; }

  // Called by the backward of each exchange. UsageError where gradients are to
  // have gradients (create_graph), which exchanges do not pass.
  void begin_backward() const;

  // The same number on all ranks, another one each time. All ranks call it.
  std::uint64_t next_seed() { return seed_++; }

  // From now on it is told of each exchange; null: no longer. Names are those
  // of weights, for notes.
  using Listener = std::function<void(const ExchangeNote&)>;
  using WeightNames = std::map<const c10::TensorImpl*, std::string>;
  void listen(Listener listener, WeightNames names = {}) {
    listener_ = std::move(listener);
    names_ = std::move(names);
  }
  bool is_heard() const { return listener_ != nullptr; }
  void tell(const ExchangeNote& note) const { listener_(note); }
  const WeightNames& weight_names() const { return names_; }

  // From now on each rank makes gradients for its own places of a parameter
  // only, as they are, not to be averaged over ranks of the grid.
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
  LentTiles lent_;  // ends first
  std::uint64_t seed_ = 0;
  Listener listener_;
  WeightNames names_;
  std::map<const c10::TensorImpl*, Ownership> owned_;
  SpatialStats stats_;
  SpatialStats before_;  // counters of exchanges at the last reset
  SpatialStats counted() const;
};

}  // namespace sheaf::spatial
