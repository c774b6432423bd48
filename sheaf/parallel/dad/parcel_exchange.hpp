#pragma once
// Exchanges parcels with all ranks, and computes gradients from the factors
// that arrive.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/factor_exchange.hpp"
#include "sheaf/parallel/dad/factor_gradients.hpp"
#include "sheaf/parallel/dad/waiting_rows.hpp"

namespace sheaf::parallel {

// A parcel to be sent.
struct PackedParcel {
  std::string name;
  ParcelPlace place;
  std::vector<PackedRows> parts;
  // The parameters whose remainders this rank wants to be averaged.
  Numbers remainders;
  bool is_backward = false;
};

// One thread may call send() while another calls make_gradient() for weights
// whose parcels have been sent.
class ParcelExchange {
 public:
  // `parameters` must outlive this object. `trace` may be null.
  ParcelExchange(const std::vector<TrainedParameter>& parameters,
                 const comm::Group& group, const std::vector<Route>& routes,
                 const FactorExchangeOptions& options, TraceWriter* trace);

  const comm::Group& group() const { return group_; }
  // The number of the current pass: one more than the passes that succeeded.
  std::int64_t pass() const { return passes_ + 1; }

  // Must be called before the first parcel of a pass, on the thread that will
  // multiply the factors on `device`.
  void begin_pass(const at::Device& device) { exchange_.begin_pass(device); }
  // All ranks must call it, in the same order. Throws UsageError if a rank
  // sends a parcel of another pass.
  void send(const PackedParcel& parcel);
  // Computes the average over ranks of the weight's gradient.
  void make_gradient(std::size_t weight);
  // The gradient from factors; undefined if no rank has sent factors in this
  // pass.
  at::Tensor made_gradient(std::size_t parameter) const;
  // The same, or that of an earlier pass.
  const at::Tensor& last_gradient(std::size_t parameter) const {
    return gradients_.gradient(parameter);
  }
  // Whether any rank wants the parameter's remainder to be averaged.
  bool has_remainder(std::size_t parameter) const {
    return has_remainder_[parameter];
  }
  // The pass has succeeded.
  void end_pass();
  // Begins the next pass. Must be called after every pass.
  void clear();

  FactorExchange& exchange() { return exchange_; }
  const FactorExchange& exchange() const { return exchange_; }
  const ExchangeStats& stats() const { return stats_; }
  ExchangeStats& stats() { return stats_; }
  const FactorStats& stats_of(std::size_t parameter) const {
    return weights_[parameter].last;
  }
  // The weight from whose deltas those of this parameter were derived in the
  // last pass; unset if they were sent.
  std::optional<std::size_t> source_of(std::size_t parameter) const {
    return weights_[parameter].source;
  }

 private:
  struct Weight {
    FactorStats now;
    FactorStats last;  // of the previous pass
    std::optional<std::size_t> source;
  };

  Weight& weight_of(const FactorPart& part) {
    return weights_[static_cast<std::size_t>(part.block.weight)];
  }
  void count_sent(const FactorParcel& mine, double ms);
  void take(int rank, FactorParcel parcel, bool is_backward);

  comm::Group group_;
  TraceWriter* trace_;
  FactorExchange exchange_;
  FactorGradients gradients_;
  std::vector<bool> has_remainder_;  // by parameter
  std::int64_t passes_ = 0;
  ExchangeStats stats_;
  std::vector<Weight> weights_;  // by parameter
};

}  // namespace sheaf::parallel
