#pragma once
// Which examples each rank takes, and in which order.
//
// The order of an epoch is one for all ranks. It is cut into global batches,
// and each of them into one contiguous share per rank, whose sizes differ by at
// most one. So every number of ranks sees the same global batches, and no
// example is left out or taken twice.

#include <cstdint>
#include <memory>
#include <vector>

namespace sheaf::data {

enum class Order {
  kSheaf,  // as above
  // As torch.utils.data.DistributedSampler: torch.randperm seeded with
  // seed + epoch, filled up by its own beginning to a multiple of the ranks
  // (or cut with drop_last), every n-th example to each rank. The global
  // batches then depend on the number of ranks.
  kPython,
};

// Examples that live with a rank: the rank of each. Global batches stay as they
// are, and each rank takes of them what is its own.
using Sites = std::shared_ptr<const std::vector<int>>;

struct SamplerOptions {
  std::int64_t global_batch = 1;  // examples of all ranks together
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // leave out a last batch that is not full
  Order order = Order::kSheaf;
  std::int64_t epoch = 0;
  Sites sites = {};  // none: shares as above
  // Parts of a global batch, of each rank; none: equal ones. With {3, 1} rank 0
  // takes three quarters, down to whole rows.
  std::vector<std::int64_t> shares = {};
  // Of a global batch with fewer than two rows for each rank, the first ranks
  // take two or more each and the others none: a rank has a single row only
  // where the batch has. For layers that cannot train on one. Not with `sites`
  // and `shares`, nor in Python's order, which say themselves who takes what.
  bool avoids_single_rows = false;
};

// The order of an epoch: a permutation of 0 to size-1 that is a function of
// these three numbers, the same with every compiler and library.
std::vector<std::int64_t> epoch_order(std::int64_t size, std::uint64_t seed,
                                      std::int64_t epoch);

class Sampler {
 public:
  // `rank` of `ranks` takes its share of `size` examples. UsageError for
  // numbers that make no sense, and in Python's order when the ranks do not
  // divide the global batch.
  Sampler(std::int64_t size, int rank, int ranks, SamplerOptions options);

  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return options_.epoch; }

  // Global batches of an epoch; the same on every rank and in every epoch.
  std::int64_t batches() const;
  // This rank's share of one; may be empty when a batch has fewer examples
  // than there are ranks. Any number of threads may ask at once.
  std::vector<std::int64_t> share(std::int64_t batch) const;
  // Where that share begins in the order of the epoch.
  std::int64_t first_index(std::int64_t batch) const;
  // Examples of the whole global batch.
  std::int64_t global_size(std::int64_t batch) const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  Range global_range(std::int64_t batch) const;
  Range share_range(std::int64_t batch) const;
  // How many ranks take rows of a batch of `count`.
  std::int64_t takers(std::int64_t count) const;
  std::int64_t total() const;
  void make_order();

  std::int64_t size_;
  int rank_;
  int ranks_;
  SamplerOptions options_;
  // All examples of an epoch, over all ranks. In Python's order those of a
  // rank stand `ranks` apart.
  std::vector<std::int64_t> order_;
};

}  // namespace sheaf::data
