#pragma once
// Selects the examples of each rank and their order.
//
// The order of an epoch is the same on all ranks. It is split into global
// batches, and each of them into one contiguous share per rank; the sizes of
// shares differ by at most one. Thus the global batches do not depend on the
// number of ranks, and each example is used exactly once.

#include <cstdint>
#include <memory>
#include <vector>

namespace sheaf::data {

enum class Order {
  kSheaf,  // as described above
  // Like torch.utils.data.DistributedSampler: torch.randperm seeded with
  // seed + epoch, padded with its first elements to a multiple of the number of
  // ranks (or truncated with drop_last); each of n ranks takes every n-th
  // example. The global batches then depend on the number of ranks.
  kPython,
};

// The rank that owns each example. Global batches are unchanged; each rank
// takes its own examples of them.
using Sites = std::shared_ptr<const std::vector<int>>;

struct SamplerOptions {
  std::int64_t global_batch = 1;  // examples over all ranks
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // drop the last batch if it is not full
  Order order = Order::kSheaf;
  std::int64_t epoch = 0;
  Sites sites = {};  // empty: shares as described above
  // Relative share of each rank in a global batch; empty: equal shares. With
  // {3, 1} rank 0 takes three quarters, rounded down to whole rows.
  std::vector<std::int64_t> shares = {};
  // If a global batch has fewer than two rows per rank, the first ranks take
  // two or more rows each and the others none. Thus a rank has a single row
  // only if the batch has a single row. For layers that cannot train on one
  // row. No effect with `sites`, `shares` or Order::kPython, which determine
  // the rows of each rank.
  bool avoids_single_rows = false;
};

// The order of an epoch: a permutation of 0 to size-1 that depends only on the
// arguments, not on compiler and libraries.
std::vector<std::int64_t> epoch_order(std::int64_t size, std::uint64_t seed,
                                      std::int64_t epoch);

class Sampler {
 public:
  // `rank` of `ranks` takes its share of `size` examples. Throws UsageError for
  // invalid numbers, and with Order::kPython if the global batch is not a
  // multiple of the number of ranks.
  Sampler(std::int64_t size, int rank, int ranks, SamplerOptions options);

  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return options_.epoch; }

  // The number of global batches of an epoch, the same on every rank and in
  // every epoch.
  std::int64_t batches() const;
  // The indices of this rank's share of a batch; may be empty if the batch has
  // fewer examples than ranks. Thread-safe.
  std::vector<std::int64_t> share(std::int64_t batch) const;
  // The position of the share's first example in the order of the epoch. For an
  // empty share with `sites`, the end of the batch.
  std::int64_t first_index(std::int64_t batch) const;
  // The number of examples of the global batch.
  std::int64_t global_size(std::int64_t batch) const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  Range global_range(std::int64_t batch) const;
  Range share_range(std::int64_t batch) const;
  // The number of ranks that take rows of a batch of `count`.
  std::int64_t takers(std::int64_t count) const;
  std::int64_t total() const;
  void make_order();

  std::int64_t size_;
  int rank_;
  int ranks_;
  SamplerOptions options_;
  // All examples of an epoch, over all ranks. With Order::kPython the examples
  // of a rank are `ranks` apart.
  std::vector<std::int64_t> order_;
};

}  // namespace sheaf::data
