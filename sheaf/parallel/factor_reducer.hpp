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
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group.hpp"
#include "sheaf/parallel/factor_message.hpp"
#include "sheaf/parallel/gradient_hooks.hpp"
#include "sheaf/parallel/graph.hpp"
#include "sheaf/parallel/low_rank.hpp"
#include "sheaf/parallel/products.hpp"
#include "sheaf/parallel/reducer.hpp"
#include "sheaf/parallel/worker.hpp"

namespace sheaf::parallel {

enum class Route : std::int64_t { kGradient, kDad, kEdad, kRankDad };

struct FactorPlan {
  std::vector<Route> routes;        // by parameter
  std::vector<bool> is_bias;        // that goes with its weights
  std::vector<std::int64_t> calls;  // of the weight in a pass, as a rule
  // Weights, by parcel.
  std::vector<std::vector<std::size_t>> forward;
  std::vector<std::vector<std::size_t>> backward;
};

struct FactorOptions {
  Where where = Where::kAllGather;
  WireFormat wire = {};
  LowRankOptions low_rank = {};
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

class FactorReducer {
 public:
  FactorReducer(std::vector<ReducedParameter> parameters,
                const comm::Group& group, FactorPlan plan,
                FactorOptions options);
  ~FactorReducer();

  bool takes(std::size_t parameter) const {
    return plan_.routes[parameter] != Route::kGradient;
  }
  // Takes over the gradient of a product of a weight that it takes.
  void add(const Product& given);

  // Off: rows are kept until the next pass with it on.
  void set_sync(bool is_on) { is_syncing_ = is_on; }
  // Finds the deltas that need not be sent, for all ranks can compute them
  // from those of the layer above.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  // As those of Reducer. After an error within backward(): forget_pass().
  void set_opener(std::function<void()> opener) { opener_ = std::move(opener); }
  void open_pass();
  void close_pass();
  void forget_pass();

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
    std::uint32_t version = 0;  // of the input, when it was multiplied
    bool is_dropped = false;    // its graph is gone, without a backward()
  };
  // Delta = (that of the layer above, times its weight) * f'(its input).
  struct Source {
    std::int64_t weight = -1;  // of the layer above; -1: there is none
    Activation activation = Activation::kIdentity;
    WeightView view;
    std::int64_t bias = -1;
  };
  // Calls with the same part of the weight.
  struct Block {
    WeightView view;
    std::int64_t bias = -1;
    std::vector<Call> calls;
    std::size_t early = 0;  // whose inputs have left
    Factors rest;           // what low rank has left out
    Source source;
  };
  struct Got {
    std::int64_t rank = 0;
    WeightView view;
    std::int64_t bias = -1;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> deltas;
    at::Tensor bias_sum;  // where the deltas are not all rows
    Source source;
  };
  struct Site {
    std::vector<std::unique_ptr<Block>> blocks;
    std::int64_t calls = 0;
    std::int64_t deltas = 0;
    std::vector<Got> got;
    std::optional<std::size_t> source;
    FactorStats stats;
    FactorStats last;  // of the pass before
  };
  struct Part {
    std::size_t weight = 0;
    Block* block = nullptr;
    Source source;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> deltas;
  };
  // A product of this pass, while its graph lives.
  struct Seen {
    LayerNodes nodes;
    std::size_t weight = 0;
    Block* block = nullptr;
  };
  struct Parcel {
    std::string name;
    std::vector<Part> parts;
    Numbers remainders;
    bool is_backward = false;
  };

  Block& block_for(const Product& product);
  struct Ticket;
  void take_delta(const Ticket& ticket, const at::Tensor& delta);
  void drop(const Ticket& ticket);
  bool is_in_time(const Ticket& ticket) const;
  void launch_forward(bool all);
  void launch_backward(bool all);
  Parcel pack(const std::vector<std::size_t>& weights, bool is_backward);
  void launch(Parcel parcel);
  void send(Parcel& parcel);
  Factors reduced(const Factors& factors, Block& block);
  void take(std::int64_t rank, const Numbers& numbers, const at::Tensor& bytes);
  void wait_for(std::size_t parcels);
  void derive_deltas(std::size_t weight);
  void make_gradient(std::size_t weight);
  void add_product(std::size_t weight, const Got& all);
  void add_to(std::size_t parameter, const at::Tensor& value);
  void settle();
  void clear();

  std::vector<ReducedParameter> parameters_;
  comm::Group group_;
  FactorPlan plan_;
  FactorOptions options_;
  bool is_overlapping_ = false;
  bool is_syncing_ = true;
  bool is_in_pass_ = false;
  std::int64_t pass_ = 0;  // a number for each
  std::function<void()> opener_;
  // For hooks, which may outlive this.
  std::shared_ptr<FactorReducer*> self_ =
      std::make_shared<FactorReducer*>(this);

  std::vector<Site> sites_;  // by parameter
  std::vector<Seen> seen_;
  std::vector<at::Tensor> buffers_;  // for gradients, by parameter
  std::vector<bool> is_made_;        // in buffers_, in this pass
  std::vector<bool> has_remainder_;  // a gradient in the ordinary way, too
  std::vector<bool> anyone_has_;     // the same, of all ranks
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  std::deque<Parcel> parcels_;  // that wait for the end of backward()

  ExchangeStats stats_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;  // parcels of this backward()
  bool has_failed_ = false;
  Worker worker_;
  std::unique_ptr<GradientHooks> hooks_;
  std::vector<std::size_t> hooked_;  // parameters with a hook
};

}  // namespace sheaf::parallel
