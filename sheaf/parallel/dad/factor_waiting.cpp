// Gradients from uses outside of products, and rows that are kept for the next
// pass.

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

// The gradient is removed from the parameter, so that nothing remains if
// backward() throws. It may arrive in parts.
void FactorReducer::add(const NewGradient& given) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  const at::Tensor& parameter = parameters_[given.parameter].tensor;
  Remainder& remainder = remainders_[given.parameter];
  at::Tensor& gradient = parameter.mutable_grad();
  if (gradient.count_nonzero().item<bool>()) remainder.is_zero = false;
  if (remainder.gradient.defined()) {
    remainder.gradient = remainder.gradient + gradient;
    remainder.shares_memory = false;
  } else if (given.is_in_use && !remainder.shared.is(gradient)) {
    remainder.users_own = gradient;
    remainder.gradient = gradient.clone();
    remainder.shares_memory = false;
  } else {
    remainder.users_own.reset();
    remainder.gradient = gradient;
    remainder.shares_memory = !given.owns_memory;
  }
  if (remainder.users_own.defined())
    gradient.zero_();
  else
    gradient.reset();
  remainder.local.clear();
  GradientMark& mark = sites_[given.parameter].mark;
  if (mark.is_set()) mark.set(parameter);
}

void FactorReducer::add_local(const NewGradient& given) {
  const std::lock_guard lock(mutex_);
  const at::Tensor& parameter = parameters_[given.parameter].tensor;
  Remainder& remainder = remainders_[given.parameter];
  if (!given.owns_memory) remainder.shares_memory = true;
  if (given.is_shared_by_backward()) remainder.shared.set(parameter.grad());
  if (given.is_in_use && !remainder.shared.is(parameter.grad()))
    remainder.users_own = parameter.grad();
  GradientMark& mark = sites_[given.parameter].mark;
  // create_graph replaces gradients instead of adding to them, which looks like
  // a reset.
  SHEAF_CHECK(!mark.is_set() || !at::GradMode::is_enabled(),
              "backward() with create_graph in no_sync(), while rows of ",
              parameters_[given.parameter].name,
              " have not been exchanged yet; call it before the others, or "
              "after the exchange");
  forget_reset_rows(given.parameter, /*is_changed=*/true);
  if (mark.is_set()) mark.set(parameter);
  if (parameter.grad().count_nonzero().item<bool>())
    remainder.local.set(parameter);
}

void FactorReducer::forget_reset_gradients() {
  std::vector<Seen> seen;  // left by a forward() that threw
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  // Must precede the first parcel of the pass, which may be sent during
  // forward().
  exchange_.begin_pass(parameters_[0].tensor.device());
  forget_reset_locked(std::nullopt);
}

void FactorReducer::forget_reset_locked(std::optional<std::size_t> changed) {
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (!parameters_[i].tensor.grad().defined()) remainders_[i].local.clear();
    forget_reset_rows(i, /*is_changed=*/changed == i);
  }
}

// `is_changed`: backward() has just added to the gradient.
void FactorReducer::forget_reset_rows(std::size_t parameter, bool is_changed) {
  Site& site = sites_[parameter];
  const auto& [name, tensor, is_sparse] = parameters_[parameter];
  if (!site.mark.is_set()) return;
  if (site.mark.is_gone(tensor)) {
    SHEAF_CHECK(is_changed || !tensor.grad().defined(), "the gradient of ",
                name,
                " was replaced after a backward() in no_sync(), whose rows "
                "DadParallel keeps until the next exchange; reset gradients "
                "with forget_gradients(), and assign them after the exchange");
    for (const auto& block : site.blocks)
      for (std::size_t k = 0; k < block->calls.size(); ++k) {
        Call& call = block->calls[k];
        if (!call.delta.defined()) continue;
        call.delta.reset();
        call.arrivals = 0;
        if (k >= block->early) drop(site, call);
      }
    for (const auto& block : site.blocks) remove_dropped(*block);
    site.mark.clear();
    return;
  }
  SHEAF_CHECK(is_changed || !site.mark.has_changed(), "the gradient of ", name,
              " was changed after a backward() in no_sync(), whose rows "
              "DadParallel keeps until the next exchange; reset gradients "
              "with forget_gradients(), and change them after the exchange");
}

// Drops a call's rows. The call keeps its index if there are later calls.
void FactorReducer::drop(Site& site, Call& call) {
  call.is_dropped = true;
  call.input.reset();
  --site.calls;
}

void FactorReducer::remove_dropped(Block& block) {
  while (!block.calls.empty() && block.calls.back().is_dropped)
    block.calls.pop_back();
}

bool FactorReducer::has_local() {
  const std::lock_guard lock(mutex_);
  forget_reset_locked(std::nullopt);
  return std::any_of(sites_.begin(), sites_.end(),
                     [](const Site& site) { return site.mark.is_set(); }) ||
         std::any_of(remainders_.begin(), remainders_.end(),
                     [](const Remainder& one) { return one.is_sent(); });
}

// Gradients and rows that arrived in the pass are lost, and so are those kept
// for the same parameters. Those kept for other parameters stay.
void FactorReducer::discard() noexcept {
  drain();
  std::vector<bool> is_gone(parameters_.size());
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (sites_[i].deltas == 0 && !remainders_[i].gradient.defined()) continue;
    is_gone[i] = true;
    for (const auto& block : sites_[i].blocks)
      if (block->key.bias >= 0)
        is_gone[static_cast<std::size_t>(block->key.bias)] = true;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_gone[i]) continue;
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    const auto resets = [&](const GradientMark& mark) {
      return mark.is_set() && !mark.is_gone(parameters_[i].tensor) &&
             !mark.has_changed();
    };
    if (resets(sites_[i].mark) || resets(remainders_[i].local)) {
      sites_[i].mark.clear();
      remainders_[i].local.clear();
      if (!owns_memory(gradient) && !gradient.is_same(gradients_.gradient(i)))
        remainders_[i].users_own = gradient;
      const at::NoGradGuard no_grad;
      if (remainders_[i].users_own.defined())
        gradient = remainders_[i].users_own.zero_();
      else
        gradient.reset();
    }
    remainders_[i] = {};
  }
  clear(is_gone);
}

// Remainders are averaged like ordinary gradients; they are rare. Gradients of
// earlier passes are equal on all ranks, so the average leaves them unchanged.
void FactorReducer::settle() {
  for (const std::size_t i : hooked_) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    Remainder& remainder = remainders_[i];
    at::Tensor own = remainder.users_own;
    // A remainder of passes without exchange that still exists.
    if (own.defined() && !remainder.gradient.defined()) {
      if (gradient.is_same(own)) {
        remainder.gradient = own.clone();
        remainder.shares_memory = false;
        own.zero_();
      } else {
        own.reset();
      }
    }
    if (remainder.gradient.defined()) gradient = remainder.gradient;
    if (anyone_has_[i]) {
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i].tensor);
      if (remainder.shares_memory) gradient = gradient.clone();
      tensor::all_reduce(group_, gradient, {.op = comm::ReduceOp::kAvg}).wait();
      stats_.bytes += static_cast<std::int64_t>(gradient.nbytes());
    }
    if (gradients_.is_made(i)) {
      if (gradient.defined() && remainder.shares_memory)
        gradient = gradient + gradients_.gradient(i);
      else if (gradient.defined())
        gradient.add_(gradients_.gradient(i));
      else
        gradient = gradients_.gradient(i);
    }
    if (!own.defined()) continue;
    // `own` holds zeros, or gradients of parameters that share it
    own.add_(gradient);
    gradient = own;
  }
}

bool FactorReducer::is_idle() {
  const std::lock_guard lock(mutex_);
  const auto waits = [](const Site& site) { return site.calls > 0; };
  return self_.use_count() == 1 &&  // other references belong to hooks
         std::none_of(sites_.begin(), sites_.end(), waits) &&
         std::none_of(remainders_.begin(), remainders_.end(),
                      [](const Remainder& one) { return one.is_sent(); });
}

}  // namespace sheaf::parallel
