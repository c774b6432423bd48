#pragma once
// Averages gradients over a group while backward() computes the next ones.
//
// Terms. A *pass* is one backward() whose gradients are exchanged. A bucket is
// *complete* when all its members have their gradients; complete buckets are
// exchanged in bucket order, which is the same on all ranks. Parameters that
// get no gradient in a pass are *unused* and are handled at its end. So are
// *late* gradients, those of a parameter that already had a gradient in the
// same pass.
//
// A parameter has no .grad() between the arrival of its gradient and the end of
// the pass, so that backward() cannot add to memory that is being exchanged.

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
#include "sheaf/parallel/common/exchange_stats.hpp"
#include "sheaf/parallel/common/gradient_mark.hpp"
#include "sheaf/parallel/common/overlap.hpp"
#include "sheaf/parallel/common/parameter_placement.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/common/worker.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/gradient_memory.hpp"
#include "sheaf/plan/format/bucket_rules.hpp"

namespace sheaf::parallel {

struct ReducerOptions {
  plan::BucketCaps caps = {};
  bool find_unused_parameters = false;
  bool static_graph = false;
  Overlap overlap = Overlap::kAuto;
  std::shared_ptr<BucketExchange> exchange = {};  // null: no compression
  TraceWriter* trace = nullptr;                   // one row for the buckets
  // Stages this rank's gradients as if they were on a device, wherever they
  // are.
  bool is_staged = false;
};

class Reducer : public GradientSink {
 public:
  // All ranks of the group must call it, with the same parameters; the devices
  // may differ between ranks.
  Reducer(std::vector<TrainedParameter> parameters, const comm::Group& group,
          ReducerOptions options);
  ~Reducer() override;

  // For BackwardPass::connect().
  std::vector<BackwardPass::Connection> connections();
  void begin_pass(std::optional<std::size_t> first) override;
  void add(const NewGradient& gradient) override;
  void add_local(const NewGradient& gradient) override;
  void finalize() override;
  void discard() noexcept override;
  // The pass of a rank without data, while other ranks run theirs.
  void shadow_pass();
  // Whether gradients of passes without exchange are kept for the next pass.
  bool has_local() const;
  // Whether there are nonzero gradients of passes with exchange.
  bool has_average() const;
  // The state that a reducer takes over from its predecessor: the parameters in
  // index order, the parameters with gradients of passes without exchange, the
  // pass number and the statistics.
  struct Inheritance {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> local;
    std::int64_t pass = 0;
    ExchangeStats stats;
  };
  Inheritance inheritance() const;
  void inherit(const Inheritance& old);

  // Sets the number of ranks that contribute gradients from the next pass on,
  // and the divisor of their sum.
  void set_active(int ranks, int divisor) {
    active_ = ranks;
    divisor_ = divisor;
    has_unused_ = false;
  }
  // Whether a pass since set_active() has failed because of unused parameters;
  // all ranks are active again then.
  bool has_unused() const { return has_unused_; }
  // Called before the module's forward() on the thread that will call
  // backward().
  void before_forward() {
    if (memory_) memory_->enter();
  }

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
  // Added to a parameter's user count by a rank with a late gradient.
  static constexpr std::int32_t kLate = 1 << 16;

  std::optional<std::size_t> index_of(const at::Tensor& tensor) const;
  void find_homes();
  bool is_on_host(std::size_t index) const;
  bool goes_alone(std::size_t index) const;
  bool is_exchanged_in_place(std::size_t index) const;
  std::vector<std::size_t> sizes_in_place() const;
  void make_buckets(const std::vector<std::size_t>& order);
  void start_pass();
  void take_gradient(const NewGradient& gradient);
  void take_late(std::size_t index);
  void take_away(std::size_t index);
  void take_nothing(std::size_t index);
  bool has_gradient_of_bucket(std::size_t index) const;
  void note_users_own(std::size_t index);
  void give_to_user(std::size_t index);
  void give_zeros(std::size_t index);
  void restore_kept(std::size_t index);
  void take_earlier();
  void add_earlier();
  void mark(std::size_t index, State state);
  void launch_complete();
  void launch(std::size_t bucket);
  void exchange(std::size_t bucket);
  void average_on_device(Bucket& bucket);
  void average_sparse(Bucket& bucket);
  void count_users();
  void finish_exchanges();
  std::vector<std::string> settle();
  void end_with(const std::vector<std::string>& unused);
  void add_late_gradients();
  void end_pass();
  void rebuild();

  std::vector<TrainedParameter> parameters_;
  comm::Group group_;
  ReducerOptions options_;
  ExchangeClaim claim_;
  bool has_begun_ = false;  // a pass is open
  bool is_overlapping_ = false;
  int active_ = 1;
  int divisor_ = 1;
  // Part of the message names. A discarded pass gives its number to the next
  // one, so that ranks whose backward() threw at different points agree on it.
  // Each pass ends with an exchange, so that messages that a rank sent before
  // it threw cannot complete a pass of another rank.
  std::int64_t pass_ = 1;

  std::vector<Home> homes_;  // by parameter
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;         // by parameter
  std::vector<std::size_t> pending_;  // number of missing members, by bucket
  std::vector<State> states_;         // by parameter
  std::vector<std::int32_t> users_;   // ranks with a gradient, by parameter
  bool has_unused_ = false;
  std::vector<at::Tensor> late_;  // late gradients, by parameter
  // Gradients that are restored if no rank adds to them.
  std::vector<at::Tensor> kept_;
  // Gradients in memory of the user, where their averages must be written.
  std::vector<at::Tensor> users_own_;
  // Gradients of passes without exchange whose memory backward() shares.
  std::vector<SeenTensor> shared_;
  // Averages of earlier passes, see take_earlier().
  std::vector<at::Tensor> earlier_;
  std::vector<std::size_t> ready_order_;
  std::vector<bool> never_used_;  // for static_graph
  std::vector<bool> has_local_;   // from passes without exchange
  std::size_t next_launch_ = 0;
  bool has_rebuilt_ = false;

  std::unique_ptr<GradientMemory> memory_;  // for large gradients; else null

  ExchangeStats stats_;
  Worker worker_;
};

}  // namespace sheaf::parallel
