#pragma once
// How a bucket's gradients become the average over all ranks: the seam that
// compressed exchanges implement.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/parallel/data/bucket.hpp"

namespace sheaf::parallel {

// What later averages depend on. Names and shapes are the same on all ranks.
struct ExchangeState {
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  Named common;  // values, too, are the same on all ranks
  Named own;     // of this rank; what counts is their mean over ranks
};

// Belongs to one model at a time.
class BucketExchange {
 public:
  virtual ~BucketExchange() = default;
  // Whether it also averages bucket.outside(), so that large gradients can
  // stay where they are.
  virtual bool takes_outside() const { return false; }
  // Leaves the average over the group in bucket.shared(). Called in the same
  // order of buckets on all ranks, by one thread. `divisor` is the number of
  // ranks that take part, less than all with join(). Returns the bytes that
  // this rank gave away.
  virtual std::int64_t average(const comm::Group& group, Bucket& bucket,
                               int divisor) = 0;
  // Each pass averages every bucket once, unless it is broken off: then nothing
  // of it may count for later ones. Called while no average() is under way.
  virtual void begin_pass() {}
  virtual void discard_pass() {}
  // The buckets are new: nothing may be kept by bucket.
  virtual void reset() {}
  // The model is gone: the next one begins anew.
  virtual void forget() { reset(); }
  // The model's parameters have changed, and with them the buckets: parameter i
  // is numbered places[i] from now on. Without a place it is gone, and what was
  // kept of it is forgotten.
  using Places = std::vector<std::optional<std::size_t>>;
  virtual void renumber(const Places& /*places*/) { reset(); }
  // For checkpoints: a copy between two passes, and back before the first.
  virtual ExchangeState state() const { return {}; }
  virtual void load(const ExchangeState& /*state*/) {}

 private:
  friend class ExchangeClaim;
  std::atomic<bool> is_claimed_ = false;
};

// While it lives, the exchange belongs to one model.
class ExchangeClaim {
 public:
  // UsageError when another model has it: what it keeps is of one model, and
  // two would use it at the same time.
  explicit ExchangeClaim(BucketExchange& exchange);
  ~ExchangeClaim() { exchange_.is_claimed_ = false; }
  ExchangeClaim(const ExchangeClaim&) = delete;
  ExchangeClaim& operator=(const ExchangeClaim&) = delete;

 private:
  BucketExchange& exchange_;
};

// The state of all ranks' exchanges for a checkpoint, complete on rank 0. What
// each rank has of its own is stacked, one row for each rank. All ranks call
// it. An exchange of null has no state.
ExchangeState::Named gather_exchange_state(const comm::Group& group,
                                           const BucketExchange* exchange);
// Gives a checkpoint's state back, before the first pass; other entries of
// `saved` are left alone. On another number of ranks each gets the mean.
void load_exchange_state(const comm::Group& group, BucketExchange* exchange,
                         const ExchangeState::Named& saved);

// In place, over the ranks that have something to give. A sum may be too large
// for 16 bits where the average is not: with those it is divided before it is
// rounded.
void average_over(const comm::Group& group, const at::Tensor& data, int divisor,
                  const std::string& name);

// The gradients as they are.
std::unique_ptr<BucketExchange> make_plain_exchange();
// Rounded to 16 bits on the way; sums are taken in f32.
std::unique_ptr<BucketExchange> make_half_exchange(at::ScalarType type);

struct PowerSgdOptions {
  int rank = 1;
  int start_step = 10;  // plain averages until then
  bool error_feedback = true;
  std::uint64_t seed = 0;
};
// Matrices as products of two thin ones (Vogels and others, 2019), with what
// was lost added to the next gradient; vectors as they are.
std::unique_ptr<BucketExchange> make_power_sgd_exchange(
    const PowerSgdOptions& options = {});

}  // namespace sheaf::parallel
