#pragma once
// Averages gradients over a group while backward() computes the next ones.
//
// Words. A *pass* is one backward() whose gradients are exchanged. A bucket is
// *complete* when all its members have their gradient; complete buckets are
// exchanged in the order of the buckets, which is the same on all ranks.
// Parameters that get no gradient in a pass are *unused*, and handled at its
// end, as are gradients that come *late*: for a parameter that had one already.
//
// A parameter has no .grad() between its gradient's arrival and the end of the
// pass: nothing that backward() adds meanwhile meets what is being exchanged.

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
#include "sheaf/parallel/data/bucket_plan.hpp"
#include "sheaf/parallel/data/gradient_memory.hpp"

namespace sheaf::parallel {

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

class Reducer : public GradientSink {
 public:
  // All ranks of the group call it, with the same parameters, on devices of
  // their own.
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
  // What a rank without data does while others have a pass.
  void shadow_pass();
  // Whether gradients of passes without exchange wait for the next pass.
  bool has_local() const;
  // Whether there are gradients, not all zero, of passes with exchange.
  bool has_average() const;
  // What a reducer takes over from the one it replaces: the parameters in the
  // order of their numbers, those with such gradients, the number of passes,
  // and the figures.
  struct Inheritance {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> local;
    std::int64_t pass = 0;
    ExchangeStats stats;
  };
  Inheritance inheritance() const;
  void inherit(const Inheritance& old);

  // How many ranks give gradients from the next pass on, and by what their sum
  // is divided.
  void set_active(int ranks, int divisor) {
    active_ = ranks;
    divisor_ = divisor;
    has_unused_ = false;
  }
  // Since then a pass has ended with the error about unused parameters; all
  // ranks are active again.
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
  // What a rank with a late gradient adds to the count of a parameter's users.
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
  bool has_begun_ = false;  // a pass, which has not ended
  bool is_overlapping_ = false;
  int active_ = 1;
  int divisor_ = 1;
  // A part of messages' names. A pass that was discarded gives its number to
  // the next: ranks whose backward() threw at different points agree on it.
  // Each pass ends with an exchange, so that what a rank has sent before it
  // threw cannot complete a pass of another.
  std::int64_t pass_ = 1;

  std::vector<Home> homes_;  // by parameter
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;         // by parameter
  std::vector<std::size_t> pending_;  // members to come, by bucket
  std::vector<State> states_;         // by parameter
  std::vector<std::int32_t> users_;   // ranks with a gradient, by parameter
  bool has_unused_ = false;
  std::vector<at::Tensor> late_;  // late gradients, by parameter
  std::vector<at::Tensor> kept_;  // gradients that may be left alone
  // Gradients in memory of the user's, where their averages belong.
  std::vector<at::Tensor> users_own_;
  std::vector<SeenTensor> shared_;  // of passes without exchange, by backward()
  std::vector<at::Tensor> earlier_;  // averages that wait, see take_earlier()
  std::vector<std::size_t> ready_order_;
  std::vector<bool> never_used_;  // of a static graph
  std::vector<bool> has_local_;   // from passes without exchange
  std::size_t next_launch_ = 0;
  bool has_rebuilt_ = false;

  std::unique_ptr<GradientMemory> memory_;  // where gradients are large

  ExchangeStats stats_;
  Worker worker_;
};

}  // namespace sheaf::parallel
