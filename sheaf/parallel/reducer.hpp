#pragma once
// Averages gradients over a group while backward() computes the next ones.
//
// Words. A *pass* is one backward() whose gradients are exchanged. A bucket is
// *complete* when all its members have their gradient; complete buckets are
// exchanged in the order of the buckets, which is the same on all ranks.
// What a pass has not touched is *unused*; it is settled at the end.

#include <torch/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group.hpp"
#include "sheaf/parallel/bucket_plan.hpp"
#include "sheaf/parallel/exchange.hpp"
#include "sheaf/parallel/gradient_hooks.hpp"
#include "sheaf/parallel/gradient_memory.hpp"
#include "sheaf/parallel/homes.hpp"
#include "sheaf/parallel/worker.hpp"

namespace sheaf::parallel {

struct ReducedParameter {
  std::string name;
  at::Tensor tensor;
  bool is_sparse = false;  // its gradients are sparse tensors
};

enum class Overlap { kAuto, kOn, kOff };
// Whether to exchange beside backward(): as wished, or where it pays.
bool should_overlap(Overlap wish, const comm::Group& group);

struct ReducerOptions {
  BucketCaps caps = {};
  bool find_unused_parameters = false;
  bool static_graph = false;
  Overlap overlap = Overlap::kAuto;
  std::shared_ptr<BucketExchange> exchange = {};  // null: as they are
  TraceWriter* trace = nullptr;                   // a row for the buckets
  // This rank's gradients go as those on a device do, wherever they are.
  bool is_staged = false;
};

// Since the last reset_stats().
struct ExchangeStats {
  double exchange_ms = 0;  // buckets under way, overlapped or not
  double wait_ms = 0;      // of that, what backward() waited for at its end
  double gradient_ms = 0;  // gradients out of factors, after that
  std::int64_t bytes = 0;  // given away by this rank
  std::int64_t passes = 0;
  std::int64_t buckets = 0;
};

class Reducer {
 public:
  // All ranks of the group call it, with the same parameters, on devices of
  // their own.
  Reducer(std::vector<ReducedParameter> parameters, const comm::Group& group,
          ReducerOptions options);
  ~Reducer();

  // Off: gradients stay with this rank, and add up. All ranks switch alike.
  void set_sync(bool is_on) { is_syncing_ = is_on; }
  bool is_syncing() const { return is_syncing_; }
  // How many ranks give gradients from the next pass on, and by what their sum
  // is divided.
  void set_active(int ranks, int divisor) {
    active_ = ranks;
    divisor_ = divisor;
  }
  // Called before the module's forward() on the thread that will call
  // backward().
  void before_forward() {
    if (memory_ && is_syncing_) memory_->enter();
  }
  // What a rank without data does while others have a pass.
  void shadow_pass();
  // Called before the first gradient of a pass.
  void set_before_pass(std::function<void()> action) {
    before_pass_ = std::move(action);
  }

  // For one whose passes go with those of another reducer, so that all ranks
  // begin and end both, whichever parameters they have used. `opener` is
  // called before each gradient; it calls open_pass() once in a pass, and
  // close_pass() at the end of backward().
  void set_opener(std::function<void()> opener) { opener_ = std::move(opener); }
  void open_pass();
  void close_pass() { end_pass(); }

  // After an error within backward(): forgets the pass that it broke.
  void forget_pass();

  ExchangeStats stats() const { return stats_; }
  void reset_stats() { stats_ = {}; }
  std::size_t bucket_count() const { return buckets_.size(); }
  const comm::Group& group() const { return group_; }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::size_t member = 0;
  };
  enum class State : std::uint8_t { kWaiting, kReady, kUnused };

  void find_homes();
  bool is_on_host(std::size_t index) const;
  bool goes_alone(std::size_t index) const;
  bool is_exchanged_in_place(std::size_t index) const;
  std::vector<std::size_t> sizes_in_place() const;
  void make_buckets(const std::vector<std::size_t>& order);
  void begin_pass();
  void on_gradient(std::size_t index);
  void take_gradient(std::size_t index);
  void take_nothing(std::size_t index);
  void mark(std::size_t index, State state);
  void launch_complete();
  void launch(std::size_t bucket);
  void exchange(std::size_t bucket);
  void average_on_device(Bucket& bucket);
  void average_sparse(Bucket& bucket);
  void count_users();
  void end_pass();
  void finish_exchanges();
  std::vector<std::string> settle();
  void rebuild();

  std::vector<ReducedParameter> parameters_;
  comm::Group group_;
  ReducerOptions options_;
  bool is_overlapping_ = false;
  bool is_syncing_ = true;
  int active_ = 1;
  int divisor_ = 1;
  std::function<void()> before_pass_;
  std::function<void()> opener_;

  std::vector<Home> homes_;  // by parameter
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;         // by parameter
  std::vector<std::size_t> pending_;  // members to come, by bucket
  std::vector<State> states_;         // by parameter
  std::vector<std::int32_t> users_;   // ranks with a gradient, by parameter
  std::vector<at::Tensor> kept_;      // gradients that may be left alone
  std::vector<std::size_t> ready_order_;
  std::vector<bool> never_used_;  // of a static graph
  std::vector<bool> has_more_;    // from passes without exchange
  std::size_t next_launch_ = 0;
  bool is_in_pass_ = false;
  bool has_rebuilt_ = false;

  std::unique_ptr<GradientMemory> memory_;  // where gradients are large

  ExchangeStats stats_;
  std::mutex mutex_;  // hooks of several devices
  Worker worker_;
  std::unique_ptr<GradientHooks> hooks_;
};

}  // namespace sheaf::parallel
