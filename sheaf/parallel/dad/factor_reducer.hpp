#pragma once
// Exchanges the factors of gradients instead of the gradients.
//
// Inputs of products are sent during forward(), deltas as soon as backward()
// has computed them. Every rank then multiplies the rows of all ranks. Weights
// with small messages share one message: a *parcel*. The assignment of weights
// to parcels and the order of parcels are the same on all ranks. The content of
// a parcel may differ between ranks and is described by its header, so ranks
// may have any number of rows, and a weight may be used any number of times.

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
  std::vector<bool> is_bias;        // biases exchanged with their weights
  std::vector<std::int64_t> calls;  // expected calls of the weight per pass
  // The weights of each parcel.
  std::vector<std::vector<std::size_t>> forward;
  std::vector<std::vector<std::size_t>> backward;
};

struct FactorOptions {
  FactorExchangeOptions exchange = {};
  Overlap overlap = Overlap::kAuto;
  TraceWriter* trace = nullptr;
};

class FactorReducer : public GradientSink {
 public:
  // `pass` must outlive this object.
  FactorReducer(std::vector<TrainedParameter> parameters,
                const comm::Group& group, FactorPlan plan,
                FactorOptions options, BackwardPass& pass);
  ~FactorReducer() override;

  // For BackwardPass::connect(): the weights on a factor route, and their
  // biases. A gradient that arrives through these connections is a *remainder*:
  // it comes from uses outside of products.
  std::vector<BackwardPass::Connection> connections();
  void begin_pass(std::optional<std::size_t> first) override;
  void add(const NewGradient& gradient) override;
  void add_local(const NewGradient& gradient) override;
  void finalize() override;
  void discard() noexcept override;

  bool takes(std::size_t parameter) const {
    return plan_.routes[parameter] != Route::kGradient;
  }
  // Takes over the gradient of a product whose weight is on a factor route.
  void add(const Product& given);
  // Rows kept for the next pass represent a gradient that has not been computed
  // yet. If the user has reset the gradient meanwhile, the rows are dropped.
  // Throws UsageError if the user has changed it in another way. Called before
  // forward().
  void forget_reset_gradients();

  // Finds the deltas that need not be sent, because all ranks can compute them
  // from those of the layer above.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  // Whether rows or gradients of passes without exchange are kept for the next
  // pass.
  bool has_local();
  // Whether there is no graph that could produce deltas, and no rows are kept
  // for a pass.
  bool is_idle();

  // See FactorExchange.
  NamedTensors gather_feedback() const { return exchange_.gather_feedback(); }
  void load_feedback(const NamedTensors& saved) {
    exchange_.load_feedback(saved);
  }

  ExchangeStats stats() const { return stats_; }
  void reset_stats() { stats_ = {}; }
  // The weight from whose deltas those of this parameter were derived in the
  // last pass; unset if they were sent.
  std::optional<std::size_t> source_of(std::size_t parameter) const;
  const FactorStats& stats_of(std::size_t parameter) const {
    return sites_[parameter].last;
  }

 private:
  struct Call {
    at::Tensor input;
    at::Tensor delta;
    std::int64_t version = 0;   // of the input, at the time of the product
    std::int64_t number = 0;    // unique
    std::int64_t arrivals = 0;  // number of gradients in the delta
    bool is_dropped = false;    // its graph was released without a backward()
  };
  struct Block {
    BlockKey key;
    std::vector<Call> calls;
    std::size_t early = 0;  // number of calls whose inputs were sent
    DeltaSource source;
    std::shared_ptr<DeltaChain> chain;  // from the source
  };
  struct Site {
    std::vector<std::unique_ptr<Block>> blocks;
    std::int64_t calls = 0;
    std::int64_t deltas = 0;
    std::optional<std::size_t> source;
    FactorStats stats;
    FactorStats last;   // of the previous pass
    GradientMark mark;  // set while rows of passes without exchange are kept
  };
  // A product of this pass, while its graph exists.
  struct Seen {
    LayerNodes nodes;
    std::size_t weight = 0;
    Block* block = nullptr;
    std::shared_ptr<ProductTap> tap;
  };
  // A gradient from uses outside of products.
  struct Remainder {
    at::Tensor gradient;  // of this pass, taken from the parameter
    // Set for a gradient of passes without exchange, which stays in the
    // parameter.
    GradientMark local;
    bool shares_memory = false;
    SeenTensor shared;  // the gradient whose memory backward() shares
    // Memory of the user, where the average must be written.
    at::Tensor users_own;
    // Whether this pass contributes only zeros, which are not sent.
    bool is_zero = true;

    bool is_sent() const { return !is_zero || local.is_set(); }
  };
  // Rows are concatenated when the part is sent.
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
  // Keeps rows of passes without exchange, except for parameters in `is_gone`.
  void clear(const std::vector<bool>& is_gone);

  std::vector<TrainedParameter> parameters_;
  comm::Group group_;
  FactorPlan plan_;
  FactorOptions options_;
  bool is_overlapping_ = false;
  BackwardPass& backward_;
  std::int64_t pass_ = 0;   // number of the pass, including discarded ones
  std::int64_t calls_ = 0;  // total number of calls
  std::int64_t ended_ = 0;  // number of successful passes, as in Reducer
  // Null after destruction, for hooks that outlive this object.
  std::shared_ptr<FactorReducer*> self_ =
      std::make_shared<FactorReducer*>(this);

  std::vector<Site> sites_;  // by parameter
  std::vector<Seen> seen_;
  FactorExchange exchange_;
  FactorGradients gradients_;
  std::vector<Remainder> remainders_;  // by parameter
  std::vector<bool> anyone_has_;       // whether any rank sends a remainder
  // The parcel of the weight in backward().
  std::vector<std::size_t> parcel_of_;
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  std::deque<Parcel> parcels_;  // parcels to be sent at the end of backward()

  ExchangeStats stats_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;  // parcels of this backward()
  bool has_failed_ = false;
  Worker worker_;
  std::vector<std::size_t> hooked_;  // parameters with a connection
};

}  // namespace sheaf::parallel
