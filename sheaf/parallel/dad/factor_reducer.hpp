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

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
#include "sheaf/parallel/common/exchange_queue.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/dad/delta_sources.hpp"
#include "sheaf/parallel/dad/parcel_exchange.hpp"
#include "sheaf/parallel/dad/parcel_schedule.hpp"
#include "sheaf/parallel/dad/remainders.hpp"
#include "sheaf/parallel/dad/waiting_rows.hpp"
#include "sheaf/parallel/products/product_tap.hpp"
#include "sheaf/parallel/products/products.hpp"

namespace sheaf::parallel {

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
  void flush() override;
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
  NamedTensors gather_feedback() const {
    return exchange_.exchange().gather_feedback();
  }
  void load_feedback(const NamedTensors& saved) {
    exchange_.exchange().load_feedback(saved);
  }

  // See ParcelExchange.
  ExchangeStats stats() const { return exchange_.stats(); }
  void reset_stats() { exchange_.stats() = {}; }
  std::optional<std::size_t> source_of(std::size_t parameter) const {
    return exchange_.source_of(parameter);
  }
  const FactorStats& stats_of(std::size_t parameter) const {
    return exchange_.stats_of(parameter);
  }

 private:
  ProductTap::Handlers handlers(std::shared_ptr<CallTicket> ticket);
  bool takes_delta(const CallTicket& ticket);
  void take_delta(const CallTicket& ticket, const at::Tensor& delta);
  void drop(const CallTicket& ticket);
  void forget_reset(std::optional<std::size_t> changed);
  void launch_forward(bool all);
  void launch_backward(bool all);
  void launch(const ParcelSchedule::Next& next);
  void wait_for(std::size_t jobs);
  void end_pass(const std::vector<bool>& is_gone);

  std::vector<TrainedParameter> parameters_;
  FactorPlan plan_;
  BackwardPass& backward_;
  // Null after destruction, for hooks that outlive this object.
  std::shared_ptr<FactorReducer*> self_ =
      std::make_shared<FactorReducer*>(this);
  std::mutex mutex_;  // guards the next four, which hooks of products use
  WaitingRows rows_;
  Remainders remainders_;
  std::vector<SeenProduct> seen_;  // of this forward(), while its graph exists
  ParcelSchedule schedule_;
  ParcelExchange exchange_;
  ExchangeQueue queue_;  // destroyed first: its jobs use the members above
};

}  // namespace sheaf::parallel
