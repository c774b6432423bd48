#pragma once
// Exchanges the factors of gradients instead of the gradients.
//
// Inputs of products leave during forward(), deltas as soon as backward() has
// them; every rank then multiplies the rows of all ranks. Weights whose
// messages would be small share one: a *parcel*. Which weights make a parcel,
// and the order of parcels, is the same on all ranks; what is in it is not,
// and goes ahead of it in a header. So ranks may have any number of rows, and
// a weight may have been used any number of times.

#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
#include "sheaf/parallel/common/gradient_mark.hpp"
#include "sheaf/parallel/common/worker.hpp"
#include "sheaf/parallel/dad/delta_chain.hpp"
#include "sheaf/parallel/dad/factor_exchange.hpp"
#include "sheaf/parallel/dad/factor_gradients.hpp"
#include "sheaf/parallel/dad/graph.hpp"
#include "sheaf/parallel/dad/product_tap.hpp"
#include "sheaf/parallel/dad/products.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

struct FactorPlan {
  std::vector<Route> routes;        // by parameter
  std::vector<bool> is_bias;        // that goes with its weights
  std::vector<std::int64_t> calls;  // of the weight in a pass, as a rule
  // Weights, by parcel.
  std::vector<std::vector<std::size_t>> forward;
  std::vector<std::vector<std::size_t>> backward;
};

struct FactorOptions {
  FactorExchangeOptions exchange = {};
  Overlap overlap = Overlap::kAuto;
  TraceWriter* trace = nullptr;
};

// Of one weight in the last pass.
struct FactorStats {
  std::int64_t rows = 0;      // of all ranks
  std::int64_t own_rows = 0;  // of this one; of rank-dad, its rank
  std::int64_t sent = 0;      // bytes of this rank's factors
  std::int64_t received = 0;  // of the others'
  double exchange_ms = 0;     // of its parcels, by share of bytes
  double gradient_ms = 0;
};

class FactorReducer : public GradientSink {
 public:
  // `pass` outlives it.
  FactorReducer(std::vector<TrainedParameter> parameters,
                const comm::Group& group, FactorPlan plan,
                FactorOptions options, BackwardPass& pass);
  ~FactorReducer() override;

  // For BackwardPass::connect(): of weights that it takes, and their biases.
  // What comes as a gradient is a *remainder*, from other uses than products.
  std::vector<BackwardPass::Connection> connections();
  void begin_pass(std::optional<std::size_t> first) override;
  void add(const NewGradient& gradient) override;
  void add_local(const NewGradient& gradient) override;
  void finalize() override;
  void discard() noexcept override;

  bool takes(std::size_t parameter) const {
    return plan_.routes[parameter] != Route::kGradient;
  }
  // Takes over the gradient of a product of a weight that it takes.
  void add(const Product& given);
  // Rows that wait for the next pass stand for a gradient that is not computed
  // yet. If the user has reset it meanwhile, they are forgotten; UsageError if
  // the user has changed it in another way. Called before forward().
  void forget_reset_gradients();

  // Finds the deltas that need not be sent, for all ranks can compute them
  // from those of the layer above.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  // Whether something of passes without exchange waits for the next pass.
  bool has_local();
  // No graph is left that would bring deltas, and no rows wait for a pass.
  bool is_idle();

  // As those of FactorExchange.
  NamedTensors gather_feedback() const { return exchange_.gather_feedback(); }
  void load_feedback(const NamedTensors& saved) {
    exchange_.load_feedback(saved);
  }

  ExchangeStats stats() const { return stats_; }
  void reset_stats() { stats_ = {}; }
  // The weight whose deltas those of this one were computed from in the last
  // pass; none: they were sent.
  std::optional<std::size_t> source_of(std::size_t parameter) const;
  const FactorStats& stats_of(std::size_t parameter) const {
    return sites_[parameter].last;
  }

 private:
  struct Call {
    at::Tensor input;
    at::Tensor delta;
    std::int64_t version = 0;   // of the input, when it was multiplied
    std::int64_t number = 0;    // no other call has it
    std::int64_t arrivals = 0;  // of gradients in the delta
    bool is_dropped = false;    // its graph is gone, without a backward()
  };
  struct Block {
    BlockKey key;
    std::vector<Call> calls;
    std::size_t early = 0;  // whose inputs have left
    DeltaSource source;
    std::shared_ptr<DeltaChain> chain;  // from there
  };
  struct Site {
    std::vector<std::unique_ptr<Block>> blocks;
    std::int64_t calls = 0;
    std::int64_t deltas = 0;
    std::optional<std::size_t> source;
    FactorStats stats;
    FactorStats last;   // of the pass before
    GradientMark mark;  // while rows of passes without exchange wait
  };
  // A product of this pass, while its graph lives.
  struct Seen {
    LayerNodes nodes;
    std::size_t weight = 0;
    Block* block = nullptr;
    std::shared_ptr<ProductTap> tap;
  };
  // A gradient that did not come from products.
  struct Remainder {
    at::Tensor gradient;  // of this pass, taken from the parameter
    GradientMark local;   // of passes without exchange: it waits there
    bool shares_memory = false;
    SeenTensor shared;     // the gradient that backward() has made so
    at::Tensor users_own;  // memory of the user's, where the average belongs
    bool is_zero = true;   // all of this pass is; not worth a message

    bool is_sent() const { return !is_zero || local.is_set(); }
  };
  // Rows are put below each other when it is sent.
  struct Part {
    const Block* block = nullptr;
    DeltaSource source;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> deltas;
    Numbers voids;  // see FactorPart
  };
  struct Parcel {
    std::string name;
    ParcelPlace place;
    std::vector<Part> parts;
    Numbers remainders;
    bool is_backward = false;
  };

  Block& block_for(const Product& product);
  struct Ticket;
  ProductTap::Handlers handlers(const std::shared_ptr<Ticket>& ticket);
  bool takes_delta(const Ticket& ticket);
  void take_delta(const Ticket& ticket, const at::Tensor& delta);
  void drop(const Ticket& ticket);
  static void drop(Site& site, Call& call);
  static void remove_dropped(Block& block);
  void forget_reset_locked(std::optional<std::size_t> changed);
  void forget_reset_rows(std::size_t parameter, bool is_changed);
  bool is_in_time(const Ticket& ticket) const;
  void launch_forward(bool all);
  void launch_backward(bool all);
  Parcel pack(const std::vector<std::size_t>& weights, bool is_backward);
  bool follows_from_above(const Block& block) const;
  Part pack(const Block& block, bool is_backward) const;
  void launch(Parcel parcel);
  void send(Parcel& parcel);
  void count_sent(const FactorParcel& mine, double ms);
  void take(std::size_t rank, FactorParcel parcel, bool is_backward);
  void wait_for(std::size_t parcels);
  void make_gradient(std::size_t weight);
  void settle();
  void drain() noexcept;
  // But for rows that wait for parameters that are not gone.
  void clear(const std::vector<bool>& is_gone);

  std::vector<TrainedParameter> parameters_;
  comm::Group group_;
  FactorPlan plan_;
  FactorOptions options_;
  bool is_overlapping_ = false;
  BackwardPass& backward_;
  std::int64_t pass_ = 0;   // a number for each, discarded ones included
  std::int64_t calls_ = 0;  // ever
  std::int64_t ended_ = 0;  // those that were not; as in Reducer
  // For hooks, which may outlive this.
  std::shared_ptr<FactorReducer*> self_ =
      std::make_shared<FactorReducer*>(this);

  std::vector<Site> sites_;  // by parameter
  std::vector<Seen> seen_;
  FactorExchange exchange_;
  FactorGradients gradients_;
  std::vector<Remainder> remainders_;   // by parameter
  std::vector<bool> anyone_has_;        // one that is sent
  std::vector<std::size_t> parcel_of_;  // the weight's, in backward()
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  std::deque<Parcel> parcels_;  // that wait for the end of backward()

  ExchangeStats stats_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;  // parcels of this backward()
  bool has_failed_ = false;
  Worker worker_;
  std::vector<std::size_t> hooked_;  // parameters with a connection
};

}  // namespace sheaf::parallel
