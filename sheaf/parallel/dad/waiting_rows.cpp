#include "sheaf/parallel/dad/waiting_rows.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {

WaitingBlock& WaitingRows::block_for(const Product& product) {
  const BlockKey key{
      static_cast<std::int64_t>(product.weight),
      product.bias ? static_cast<std::int64_t>(*product.bias) : -1,
      product.view};
  auto& blocks = sites_[product.weight].blocks;
  for (const auto& block : blocks)
    if (block->key == key) return *block;
  blocks.push_back(std::make_unique<WaitingBlock>());
  blocks.back()->key = key;
  return *blocks.back();
}

CallTicket WaitingRows::add(const Product& product) {
  WaitingBlock& block = block_for(product);
  CallTicket ticket{pass_, block.calls.size(), ++numbers_, &block, product};
  ticket.product.node.reset();
  ticket.product.input_node.reset();
  block.calls.push_back(
      {product.input, {}, product.input._version(), numbers_});
  ++sites_[product.weight].calls;
  return ticket;
}

// Whether the call belongs to this pass, and its input has been sent if those
// of neighboring calls have.
bool WaitingRows::is_in_time(const CallTicket& ticket) const {
  const WaitingBlock& block = *ticket.block;
  if (ticket.pass != pass_ || ticket.call >= block.calls.size()) return false;
  const WaitingCall& call = block.calls[ticket.call];
  return call.number == ticket.number &&
         !(call.is_dropped && ticket.call < block.early);
}

void WaitingRows::take_delta(const CallTicket& ticket, const at::Tensor& delta,
                             bool is_local) {
  const std::size_t weight = ticket.product.weight;
  Site& site = sites_[weight];
  if (is_local) forget_reset(weight, /*is_changed=*/false);
  std::vector<WaitingCall>& calls = ticket.block->calls;
  const at::Tensor& input = ticket.product.input;
  if (is_in_time(ticket)) {
    WaitingCall& call = calls[ticket.call];
    if (call.is_dropped) {
      call = {input, {}, input._version(), ticket.number};
      ++site.calls;
    }
    call.delta = call.delta.defined() ? call.delta + delta : delta;
    ++call.arrivals;
  } else {
    calls.push_back({input, delta, input._version(), ++numbers_, 1});
    ++site.calls;
  }
  if (is_local)
    site.mark.set(parameters_[weight].tensor);
  else
    ++site.deltas;
}

void WaitingRows::drop(const CallTicket& ticket) {
  if (!is_in_time(ticket)) return;
  WaitingCall& call = ticket.block->calls[ticket.call];
  if (call.delta.defined() || call.is_dropped ||
      ticket.call < ticket.block->early)
    return;
  drop(sites_[ticket.product.weight], call);
  remove_dropped(*ticket.block);
}

// Drops a call's rows. The call keeps its index if there are later calls.
void WaitingRows::drop(Site& site, WaitingCall& call) {
  call.is_dropped = true;
  call.input.reset();
  --site.calls;
}

void WaitingRows::remove_dropped(WaitingBlock& block) {
  while (!block.calls.empty() && block.calls.back().is_dropped)
    block.calls.pop_back();
}

bool WaitingRows::has_calls(std::size_t weight, std::int64_t calls) const {
  return sites_[weight].calls >= calls;
}

// A recomputed layer has no call until backward() reaches it.
bool WaitingRows::has_deltas(std::size_t weight, std::int64_t calls) const {
  const Site& site = sites_[weight];
  return site.deltas == site.calls && site.calls >= calls;
}

bool WaitingRows::is_empty() const {
  return std::none_of(sites_.begin(), sites_.end(),
                      [](const Site& site) { return site.calls > 0; });
}

std::vector<std::size_t> WaitingRows::biases_of(std::size_t weight) const {
  std::vector<std::size_t> biases;
  for (const auto& block : sites_[weight].blocks)
    if (block->key.bias >= 0)
      biases.push_back(static_cast<std::size_t>(block->key.bias));
  return biases;
}

// Requires one call of each layer and both deltas.
bool WaitingRows::follows_from_above(const WaitingBlock& block) const {
  if (block.source.above.weight < 0 || block.calls.size() != 1) return false;
  const auto& others =
      sites_[static_cast<std::size_t>(block.source.above.weight)].blocks;
  const auto above = std::find_if(
      others.begin(), others.end(),
      [&](const auto& other) { return other->key == block.source.above; });
  if (above == others.end() || (*above)->calls.size() != 1) return false;
  const WaitingCall& mine = block.calls[0];
  const WaitingCall& from = (*above)->calls[0];
  return mine.delta.defined() && from.delta.defined() &&
         block.chain->holds(from.arrivals, mine.arrivals);
}

void WaitingRows::check_unchanged(const WaitingBlock& block,
                                  const WaitingCall& call) const {
  SHEAF_CHECK(call.input._version() == call.version, "the input of ",
              parameters_[static_cast<std::size_t>(block.key.weight)].name,
              " was changed in place after forward() and before its "
              "rows were sent; pass a copy to forward()");
}

PackedRows WaitingRows::pack(const WaitingBlock& block,
                             bool is_backward) const {
  PackedRows rows{
      block.key, is_backward ? block.source : DeltaSource{}, {}, {}, {}};
  // If no call has a delta, there is no gradient, as opposed to a gradient of
  // zeros. The other ranks then ignore inputs that were sent before.
  if (is_backward && std::none_of(block.calls.begin(), block.calls.end(),
                                  [](const WaitingCall& call) {
                                    return call.delta.defined();
                                  }))
    return rows;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < block.calls.size(); ++i) {
    const WaitingCall& call = block.calls[i];
    if (call.is_dropped) continue;
    const std::int64_t first = row;
    const std::int64_t count = call.input.size(0);
    row += count;
    // Sending zeros for missing deltas would give NaN if an input is not
    // finite.
    if (is_backward && !call.delta.defined()) {
      if (i < block.early) rows.voids.insert(rows.voids.end(), {first, count});
      continue;
    }
    if (!is_backward || i >= block.early) {
      check_unchanged(block, call);
      rows.inputs.push_back(call.input);
    }
    if (is_backward && block.source.above.weight < 0)
      rows.deltas.push_back(call.delta);
  }
  return rows;
}

std::vector<PackedRows> WaitingRows::pack(
    const std::vector<std::size_t>& weights, bool is_backward) {
  std::vector<PackedRows> all;
  for (const std::size_t weight : weights)
    for (const auto& block : sites_[weight].blocks) {
      if (is_backward && !follows_from_above(*block)) block->source = {};
      PackedRows rows = pack(*block, is_backward);
      if (!rows.inputs.empty() || !rows.deltas.empty() ||
          rows.source.above.weight >= 0)
        all.push_back(std::move(rows));
    }
  // Set only when nothing can throw any more.
  if (!is_backward)
    for (const std::size_t weight : weights)
      for (const auto& block : sites_[weight].blocks)
        block->early = block->calls.size();
  return all;
}

bool WaitingRows::has_local() const {
  return std::any_of(sites_.begin(), sites_.end(),
                     [](const Site& site) { return site.mark.is_set(); });
}

void WaitingRows::renew_mark(std::size_t parameter) {
  GradientMark& mark = sites_[parameter].mark;
  if (mark.is_set()) mark.set(parameters_[parameter].tensor);
}

bool WaitingRows::remove_mark(std::size_t parameter) {
  GradientMark& mark = sites_[parameter].mark;
  const bool is_unchanged = mark.is_unchanged(parameters_[parameter].tensor);
  mark.clear();
  return is_unchanged;
}

void WaitingRows::forget_reset(std::size_t parameter, bool is_changed) {
  Site& site = sites_[parameter];
  const auto& [name, tensor, is_sparse] = parameters_[parameter];
  if (!site.mark.is_set()) return;
  if (site.mark.is_gone(tensor)) {
    SHEAF_CHECK(is_changed || !tensor.grad().defined(), "the gradient of ",
                name,
                " was replaced after a backward() in no_sync(), whose rows "
                "DadParallel keeps until the next exchange; reset gradients "
                "with forget_gradients(), and assign them after the exchange");
    return forget_deltas(site);
  }
  SHEAF_CHECK(is_changed || !site.mark.has_changed(), "the gradient of ", name,
              " was changed after a backward() in no_sync(), whose rows "
              "DadParallel keeps until the next exchange; reset gradients "
              "with forget_gradients(), and change them after the exchange");
}

void WaitingRows::forget_deltas(Site& site) {
  for (const auto& block : site.blocks)
    for (std::size_t i = 0; i < block->calls.size(); ++i) {
      WaitingCall& call = block->calls[i];
      if (!call.delta.defined()) continue;
      call.delta.reset();
      call.arrivals = 0;
      if (i >= block->early) drop(site, call);
    }
  for (const auto& block : site.blocks) remove_dropped(*block);
  site.mark.clear();
}

void WaitingRows::begin_pass() {
  for (Site& site : sites_) site.deltas = 0;
}

void WaitingRows::end_pass(const std::vector<bool>& is_gone) {
  ++pass_;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    Site& site = sites_[i];
    if (is_gone[i]) site.mark.clear();
    site.calls = 0;
    site.deltas = 0;
    for (const auto& block : site.blocks) {
      if (site.mark.is_set())
        std::erase_if(block->calls, [](const WaitingCall& one) {
          return !one.delta.defined();
        });
      else
        block->calls.clear();
      site.calls += static_cast<std::int64_t>(block->calls.size());
      block->early = 0;
      block->source = {};
      block->chain.reset();
    }
  }
}

}  // namespace sheaf::parallel
