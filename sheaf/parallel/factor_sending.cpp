// What goes into a parcel, and what came out of the others'.

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/parallel/factor_reducer.hpp"

namespace sheaf::parallel {

// A loss may use a tensor that forward() has not given away: then more comes
// to this layer's output than what the graph of the outputs shows. All of it is
// looked at the first time, and a little each time.
bool FactorReducer::follows_from_above(Block& block) const {
  constexpr std::int64_t kRows = 4, kColumns = 64;
  if (block.source.above.weight < 0) return false;
  const auto& others =
      sites_[static_cast<std::size_t>(block.source.above.weight)].blocks;
  const auto above = std::find_if(
      others.begin(), others.end(),
      [&](const auto& other) { return other->key == block.source.above; });
  if (above == others.end() || (*above)->calls.size() != 1) return false;
  const Call& mine = block.calls[0];
  const Call& from = (*above)->calls[0];
  if (!mine.delta.defined() || !from.delta.defined()) return false;
  const at::NoGradGuard no_grad;
  // Some rows and columns: the whole would be a pass over the weight.
  const bool is_first = !std::exchange(block.was_compared, true);
  const auto some = [&](std::int64_t size, std::int64_t most) {
    const std::int64_t count = is_first ? size : std::min(size, most);
    return std::pair{pass_ % (size - count + 1), count};
  };
  const auto [row, rows] = some(mine.delta.size(0), kRows);
  const auto [column, columns] = some(mine.delta.size(1), kColumns);
  const auto part = [&](const at::Tensor& x) {
    return x.narrow(0, row, rows).narrow(1, column, columns);
  };
  const at::Tensor weight =
      part_of(parameters_[static_cast<std::size_t>(block.source.above.weight)]
                  .tensor.detach(),
              (*above)->key.view)
          .narrow(1, column, columns);
  const at::Tensor derived =
      times_derivative(from.delta.narrow(0, row, rows).mm(weight),
                       block.source.activation, part(from.input));
  const at::Tensor given = part(mine.delta);
  const double size = given.norm().item<double>();
  const double rounding = given.element_size() < 4 ? 0.05 : 1e-3;
  return (derived - given).norm().item<double>() <= rounding * size;
}

FactorReducer::Part FactorReducer::pack(const Block& block,
                                        bool is_backward) const {
  Part part{&block, is_backward ? block.source : DeltaSource{}, {}, {}};
  const ReducedParameter& weight =
      parameters_[static_cast<std::size_t>(block.key.weight)];
  for (std::size_t i = 0; i < block.calls.size(); ++i) {
    const Call& call = block.calls[i];
    if (call.is_dropped) continue;
    if (!is_backward || i >= block.early) {
      SHEAF_CHECK(call.input._version() == call.version, "the input of ",
                  weight.name,
                  " was changed in place after forward(), and before its "
                  "rows were sent; give forward() a copy");
      part.inputs.push_back(call.input);
    }
    if (is_backward && block.source.above.weight < 0)
      part.deltas.push_back(
          call.delta.defined()
              ? call.delta
              : at::zeros({call.input.size(0), block.key.view.out},
                          weight.tensor.options()));
  }
  return part;
}

FactorReducer::Parcel FactorReducer::pack(
    const std::vector<std::size_t>& weights, bool is_backward) {
  Parcel parcel;
  parcel.is_backward = is_backward;
  parcel.name = concat(is_backward ? "deltas " : "inputs ",
                       is_backward ? next_backward_ : next_forward_);
  for (const std::size_t weight : weights)
    for (const auto& block : sites_[weight].blocks) {
      if (is_backward && !follows_from_above(*block)) block->source = {};
      Part part = pack(*block, is_backward);
      if (!is_backward) block->early = block->calls.size();
      if (!part.inputs.empty() || !part.deltas.empty() ||
          part.source.above.weight >= 0)
        parcel.parts.push_back(std::move(part));
    }
  if (is_backward && next_backward_ + 1 == plan_.backward.size())
    for (const std::size_t i : hooked_)
      if (has_remainder_[i])
        parcel.remainders.push_back(static_cast<std::int64_t>(i));
  return parcel;
}

void FactorReducer::send(Parcel& parcel) {
  const Stopwatch watch;
  const TraceSpan span(options_.trace, parcel.name, "exchange", 1);
  const at::NoGradGuard no_grad;
  FactorParcel mine{parcel.remainders, {}};
  for (const Part& part : parcel.parts) {
    FactorPart& one = mine.parts.emplace_back();
    one.block = part.block->key;
    one.source = part.source;
    if (!part.inputs.empty()) one.factors.inputs = stacked(part.inputs);
    if (!part.deltas.empty()) one.factors.deltas = stacked(part.deltas);
  }
  auto all = exchange_.share(mine);
  count_sent(mine, watch.ms());
  for (std::size_t r = 0; r < all.size(); ++r) take(r, std::move(all[r]));
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

void FactorReducer::take(std::size_t rank, FactorParcel parcel) {
  for (const std::int64_t i : parcel.remainders)
    anyone_has_[static_cast<std::size_t>(i)] = true;
  for (FactorPart& part : parcel.parts) {
    sites_[static_cast<std::size_t>(part.block.weight)].stats.received +=
        part.bytes;
    gradients_.take(static_cast<int>(rank), std::move(part));
  }
}

}  // namespace sheaf::parallel
