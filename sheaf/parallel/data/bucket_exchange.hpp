#pragma once
// The interface that turns a bucket's gradients into their average over all
// ranks. Compressed exchanges implement it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/parallel/data/bucket.hpp"

namespace sheaf::parallel {

// The state that later averages depend on. Names and shapes are equal on all
// ranks.
struct ExchangeState {
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  Named common;  // values are equal on all ranks, too
  Named own;     // values of this rank; only their mean over ranks matters
};

// Can be used by one model at a time.
class BucketExchange {
 public:
  virtual ~BucketExchange() = default;
  // Whether average() also handles bucket.outside(), so that large gradients
  // can be exchanged in place.
  virtual bool takes_outside() const { return false; }
  // Whether average() averages each element of bucket.shared() by itself, so
  // that an element is zero afterwards if and only if it was zero on all ranks,
  // for elements of 0 and 1. The last bucket of a pass then also exchanges
  // whether any rank has an unused parameter. Must be equal on all ranks.
  virtual bool keeps_zeros() const { return false; }
  // Replaces bucket.shared() with the average over the group. Called for the
  // buckets in the same order on all ranks, by one thread. `divisor` is the
  // number of ranks to divide by; with join() it may be smaller than the group.
  // Returns the number of bytes that this rank sent, counted as for an
  // all-reduce in one type: the size of the buffer.
  virtual std::int64_t average(const comm::Group& group, Bucket& bucket,
                               int divisor) = 0;
  // Each pass averages every bucket once, unless it is aborted: discard_pass()
  // must then undo its effects on later passes. Called while no average() is in
  // progress.
  virtual void begin_pass() {}
  virtual void discard_pass() {}
  // The buckets have been replaced: state must not be kept by bucket.
  virtual void reset() {}
  // The model has been destroyed: all state must be reset for the next one.
  virtual void forget() { reset(); }
  // The model's parameters have changed, and with them the buckets: the new
  // index of parameter i is places[i]. A parameter without a new index was
  // removed, and its state must be dropped.
  using Places = std::vector<std::optional<std::size_t>>;
  virtual void renumber(const Places& /*places*/) { reset(); }
  // For checkpoints: state() returns a copy, called between two passes; load()
  // restores it before the first pass.
  virtual ExchangeState state() const { return {}; }
  virtual void load(const ExchangeState& /*state*/) {}

 private:
  friend class ExchangeClaim;
  std::atomic<bool> is_claimed_ = false;
};

// Reserves an exchange for one model while this object exists.
class ExchangeClaim {
 public:
  // Throws UsageError if another model uses the exchange, because its state
  // belongs to one model and both would use it at the same time.
  explicit ExchangeClaim(BucketExchange& exchange);
  ~ExchangeClaim() { exchange_.is_claimed_ = false; }
  ExchangeClaim(const ExchangeClaim&) = delete;
  ExchangeClaim& operator=(const ExchangeClaim&) = delete;

 private:
  BucketExchange& exchange_;
};

// Gathers the exchange state of all ranks for a checkpoint; the result is
// complete on rank 0. State that differs between ranks is stacked, one row per
// rank. All ranks must call it. A null exchange has no state.
ExchangeState::Named gather_exchange_state(const comm::Group& group,
                                           const BucketExchange* exchange);
// Restores a checkpoint's state before the first pass; other entries of `saved`
// are ignored. If the number of ranks has changed, each rank gets the mean.
void load_exchange_state(const comm::Group& group, BucketExchange* exchange,
                         const ExchangeState::Named& saved);

// Averages in place over the group, with the given divisor. With 16-bit types
// the division comes before the rounding, because the sum may overflow where
// the average does not.
void average_over(const comm::Group& group, const at::Tensor& data, int divisor,
                  const std::string& name);

// Exchanges the gradients without compression.
std::unique_ptr<BucketExchange> make_plain_exchange();
// Rounds the gradients to 16 bits for transfer; sums are computed in f32.
std::unique_ptr<BucketExchange> make_half_exchange(at::ScalarType type);

struct PowerSgdOptions {
  int rank = 1;
  int start_step = 10;  // uncompressed averages before this step
  bool error_feedback = true;
  std::uint64_t seed = 0;
};
// PowerSGD (Vogels et al., 2019): sends matrices as products of two thin
// matrices, and adds the approximation error to the next gradient. Vectors are
// sent uncompressed.
std::unique_ptr<BucketExchange> make_power_sgd_exchange(
    const PowerSgdOptions& options = {});

}  // namespace sheaf::parallel
