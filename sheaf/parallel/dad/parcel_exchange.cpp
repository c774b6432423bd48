#include "sheaf/parallel/dad/parcel_exchange.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"

namespace sheaf::parallel {
namespace {

FactorParcel with_stacked_rows(const PackedParcel& parcel) {
  FactorParcel mine{parcel.place, parcel.remainders, {}};
  for (const PackedRows& part : parcel.parts) {
    FactorPart& one = mine.parts.emplace_back();
    one.block = part.block;
    one.source = part.source;
    if (!part.inputs.empty()) one.factors.inputs = stacked(part.inputs);
    if (!part.deltas.empty()) one.factors.deltas = stacked(part.deltas);
    if (!part.voids.empty())
      one.voids = at::tensor(part.voids, at::kLong).view({-1, 2});
  }
  return mine;
}

}  // namespace

ParcelExchange::ParcelExchange(const std::vector<TrainedParameter>& parameters,
                               const comm::Group& group,
                               const std::vector<Route>& routes,
                               const FactorExchangeOptions& options,
                               TraceWriter* trace)
    : group_(group),
      trace_(trace),
      exchange_(group, routes, options),
      gradients_(parameters, group.size()),
      has_remainder_(parameters.size()),
      weights_(parameters.size()) {}

void ParcelExchange::send(const PackedParcel& parcel) {
  const Stopwatch watch;
  const TraceSpan span(trace_, parcel.name, "exchange", 1);
  const at::NoGradGuard no_grad;
  FactorParcel mine = with_stacked_rows(parcel);
  auto all = exchange_.share(mine);
  count_sent(mine, watch.ms());
  for (std::size_t r = 0; r < all.size(); ++r) {
    SHEAF_CHECK(all[r].place == parcel.place, "rank ", group_.rank(),
                " exchanges factors of pass ", parcel.place.pass, ", rank ", r,
                " those of pass ", all[r].place.pass,
                "; did backward() fail on one of them, or later than on the "
                "other?");
    take(static_cast<int>(r), std::move(all[r]), parcel.is_backward);
  }
  stats_.exchange_ms += watch.ms();
  ++stats_.buckets;
}

void ParcelExchange::count_sent(const FactorParcel& mine, double ms) {
  std::int64_t total = 0;
  for (const FactorPart& part : mine.parts) total += part.bytes;
  stats_.bytes += total;
  for (const FactorPart& part : mine.parts) {
    Weight& weight = weight_of(part);
    weight.now.sent += part.bytes;
    weight.now.exchange_ms +=
        ms * static_cast<double>(part.bytes) /
        static_cast<double>(std::max<std::int64_t>(1, total));
    if (part.factors.deltas.defined()) {
      weight.now.own_rows += part.factors.deltas.size(0);
      weight.source.reset();
    }
    if (part.source.above.weight >= 0)
      weight.source = static_cast<std::size_t>(part.source.above.weight);
  }
}

void ParcelExchange::take(int rank, FactorParcel parcel, bool is_backward) {
  for (const std::int64_t i : parcel.remainders)
    has_remainder_[static_cast<std::size_t>(i)] = true;
  for (FactorPart& part : parcel.parts) {
    weight_of(part).now.received += part.bytes;
    gradients_.take(rank, std::move(part), is_backward);
  }
}

void ParcelExchange::make_gradient(std::size_t weight) {
  const Stopwatch watch;
  FactorStats& stats = weights_[weight].now;
  stats.rows += gradients_.make(weight);
  stats.own_rows += gradients_.derived_rows(weight, group_.rank());
  stats.gradient_ms += watch.ms();
  stats_.gradient_ms += watch.ms();
}

at::Tensor ParcelExchange::made_gradient(std::size_t parameter) const {
  return gradients_.is_made(parameter) ? gradients_.gradient(parameter)
                                       : at::Tensor();
}

void ParcelExchange::end_pass() {
  exchange_.end_pass();
  ++stats_.passes;
  ++passes_;
}

void ParcelExchange::clear() {
  exchange_.forget_pass();
  gradients_.clear();
  std::fill(has_remainder_.begin(), has_remainder_.end(), false);
  for (Weight& weight : weights_) weight.last = std::exchange(weight.now, {});
}

}  // namespace sheaf::parallel
