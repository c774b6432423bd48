// Packs parcels, and processes the parcels of other ranks.

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"

namespace sheaf::parallel {

// Requires one call of each layer and both deltas.
bool FactorReducer::follows_from_above(const Block& block) const {
  if (block.source.above.weight < 0 || block.calls.size() != 1) return false;
  const auto& others =
      sites_[static_cast<std::size_t>(block.source.above.weight)].blocks;
  const auto above = std::find_if(
      others.begin(), others.end(),
      [&](const auto& other) { return other->key == block.source.above; });
  if (above == others.end() || (*above)->calls.size() != 1) return false;
  const Call& mine = block.calls[0];
  const Call& from = (*above)->calls[0];
  return mine.delta.defined() && from.delta.defined() &&
         block.chain->holds(from.arrivals, mine.arrivals);
}

FactorReducer::Part FactorReducer::pack(const Block& block,
                                        bool is_backward) const {
  Part part{&block, is_backward ? block.source : DeltaSource{}, {}, {}, {}};
  const TrainedParameter& weight =
      parameters_[static_cast<std::size_t>(block.key.weight)];
  // If no call has a delta, there is no gradient, as opposed to a gradient of
  // zeros. The other ranks then ignore inputs that were sent before.
  if (is_backward &&
      std::none_of(block.calls.begin(), block.calls.end(),
                   [](const Call& call) { return call.delta.defined(); }))
    return part;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < block.calls.size(); ++i) {
    const Call& call = block.calls[i];
    if (call.is_dropped) continue;
    const std::int64_t rows = call.input.size(0);
    // Sending zeros for missing deltas would give NaN if an input is not
    // finite.
    if (is_backward && !call.delta.defined()) {
      if (i < block.early) part.voids.insert(part.voids.end(), {row, rows});
      row += rows;
      continue;
    }
    row += rows;
    if (!is_backward || i >= block.early) {
      SHEAF_CHECK(call.input._version() == call.version, "the input of ",
                  weight.name,
                  " was changed in place after forward() and before its "
                  "rows were sent; pass a copy to forward()");
      part.inputs.push_back(call.input);
    }
    if (is_backward && block.source.above.weight < 0)
      part.deltas.push_back(call.delta);
  }
  return part;
}

FactorReducer::Parcel FactorReducer::pack(
    const std::vector<std::size_t>& weights, bool is_backward) {
  Parcel parcel;
  parcel.is_backward = is_backward;
  parcel.place = {
      ended_ + 1,
      static_cast<std::int64_t>(
          is_backward ? plan_.forward.size() + next_backward_ : next_forward_)};
  parcel.name = concat(is_backward ? "deltas " : "inputs ",
                       is_backward ? next_backward_ : next_forward_);
  for (const std::size_t weight : weights)
    for (const auto& block : sites_[weight].blocks) {
      if (is_backward && !follows_from_above(*block)) block->source = {};
      Part part = pack(*block, is_backward);
      if (!part.inputs.empty() || !part.deltas.empty() ||
          part.source.above.weight >= 0)
        parcel.parts.push_back(std::move(part));
    }
  // Set only when nothing can throw any more.
  if (!is_backward)
    for (const std::size_t weight : weights)
      for (const auto& block : sites_[weight].blocks)
        block->early = block->calls.size();
  if (is_backward && next_backward_ + 1 == plan_.backward.size())
    for (const std::size_t i : hooked_)
      if (remainders_[i].is_sent())
        parcel.remainders.push_back(static_cast<std::int64_t>(i));
  return parcel;
}

void FactorReducer::send(Parcel& parcel) {
  const Stopwatch watch;
  const TraceSpan span(options_.trace, parcel.name, "exchange", 1);
  const at::NoGradGuard no_grad;
  FactorParcel mine{parcel.place, parcel.remainders, {}};
  for (const Part& part : parcel.parts) {
    FactorPart& one = mine.parts.emplace_back();
    one.block = part.block->key;
    one.source = part.source;
    if (!part.inputs.empty()) one.factors.inputs = stacked(part.inputs);
    if (!part.deltas.empty()) one.factors.deltas = stacked(part.deltas);
    if (!part.voids.empty())
      one.voids = at::tensor(part.voids, at::kLong).view({-1, 2});
  }
  auto all = exchange_.share(mine);
  count_sent(mine, watch.ms());
  for (std::size_t r = 0; r < all.size(); ++r) {
    SHEAF_CHECK(all[r].place == parcel.place, "rank ", group_.rank(),
                " exchanges factors of pass ", parcel.place.pass, ", rank ", r,
                " those of pass ", all[r].place.pass,
                "; did backward() fail on one of them, or later than on the "
                "other?");
    take(r, std::move(all[r]), parcel.is_backward);
  }
  stats_.exchange_ms += watch.ms();
  ++stats_.buckets;
}

void FactorReducer::count_sent(const FactorParcel& mine, double ms) {
  std::int64_t total = 0;
  for (const FactorPart& part : mine.parts) total += part.bytes;
  stats_.bytes += total;
  for (const FactorPart& part : mine.parts) {
    Site& site = sites_[static_cast<std::size_t>(part.block.weight)];
    site.stats.sent += part.bytes;
    site.stats.exchange_ms +=
        ms * static_cast<double>(part.bytes) /
        static_cast<double>(std::max<std::int64_t>(1, total));
    if (part.factors.deltas.defined()) {
      site.stats.own_rows += part.factors.deltas.size(0);
      site.source.reset();
    }
    if (part.source.above.weight >= 0)
      site.source = static_cast<std::size_t>(part.source.above.weight);
  }
}

void FactorReducer::take(std::size_t rank, FactorParcel parcel,
                         bool is_backward) {
  for (const std::int64_t i : parcel.remainders)
    anyone_has_[static_cast<std::size_t>(i)] = true;
  for (FactorPart& part : parcel.parts) {
    sites_[static_cast<std::size_t>(part.block.weight)].stats.received +=
        part.bytes;
    gradients_.take(static_cast<int>(rank), std::move(part), is_backward);
  }
}

}  // namespace sheaf::parallel
