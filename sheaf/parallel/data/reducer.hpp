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
//
// Each pass ends with an exchange that begins after backward(), so that
// messages that a rank sent before it threw cannot complete a pass of another
// rank: the last bucket, which also exchanges whether any rank has an unused
// parameter or a late gradient. If so, or if the last bucket cannot exchange
// it, the ranks then count the users of each parameter.

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
#include "sheaf/parallel/common/exchange_queue.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/data/bucket_averager.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/bucket_layout.hpp"
#include "sheaf/parallel/data/earlier_gradients.hpp"
#include "sheaf/parallel/data/gradient_arrivals.hpp"
#include "sheaf/parallel/data/gradient_memory.hpp"
#include "sheaf/parallel/data/late_gradients.hpp"
#include "sheaf/parallel/data/parameter_users.hpp"
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

  // For BackwardPass::connect().
  std::vector<BackwardPass::Connection> connections();
  void begin_pass(std::optional<std::size_t> first) override;
  void add(const NewGradient& gradient) override;
  void add_local(const NewGradient& gradient) override;
  void flush() override;
  void finalize() override;
  void discard() noexcept override;
  // The pass of a rank without data, while other ranks run theirs.
  void shadow_pass();
  // Whether gradients of passes without exchange are kept for the next pass.
  bool has_local() const { return earlier_.has_local(); }
  // Whether there are nonzero gradients of passes with exchange.
  bool has_average() const { return earlier_.has_average(); }
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
    users_.set_active(ranks);
    averager_.set_divisor(divisor);
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

  ExchangeStats stats() const { return averager_.stats(); }
  void reset_stats() { averager_.stats() = {}; }
  std::size_t bucket_count() const { return layout_.size(); }
  const comm::Group& group() const { return averager_.group(); }

 private:
  std::optional<std::size_t> index_of(const at::Tensor& tensor) const;
  void start_pass();
  void take_gradient(const NewGradient& gradient);
  void take_nothing(std::size_t index);
  void give_zeros(std::size_t index);
  void launch_complete(std::size_t end, bool is_status_set);
  void launch_rest(bool has_data);
  void launch(std::size_t bucket, bool is_status_set);
  void count_users();
  std::vector<std::string> settle();
  void end_with(const std::vector<std::string>& unused);
  void add_late_gradients();
  void end_pass();
  void rebuild();

  std::vector<TrainedParameter> parameters_;
  ReducerOptions options_;
  BucketAverager averager_;
  BucketLayout layout_;
  GradientArrivals arrivals_;
  EarlierGradients earlier_;
  LateGradients late_;
  ParameterUsers users_;
  bool has_unused_ = false;
  std::unique_ptr<GradientMemory> memory_;  // for large gradients; else null
  ExchangeQueue queue_;  // destroyed first: its jobs use the members above
};

}  // namespace sheaf::parallel
