#include "sheaf/parallel/dad/remainders.hpp"

#include <algorithm>
#include <utility>

#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

Remainders::Remainders(const std::vector<TrainedParameter>& parameters,
                       std::vector<std::size_t> watched)
    : parameters_(parameters),
      watched_(std::move(watched)),
      list_(parameters.size()) {}

void Remainders::take(const NewGradient& given) {
  const at::NoGradGuard no_grad;
  Remainder& remainder = list_[given.parameter];
  at::Tensor& arrived = gradient(given.parameter);
  if (arrived.count_nonzero().item<bool>()) remainder.is_zero = false;
  if (remainder.gradient.defined()) {
    remainder.gradient = remainder.gradient + arrived;
    remainder.shares_memory = false;
  } else if (given.is_in_use && !remainder.shared.is(arrived)) {
    remainder.users_own = arrived;
    remainder.gradient = arrived.clone();
    remainder.shares_memory = false;
  } else {
    remainder.users_own.reset();
    remainder.gradient = arrived;
    remainder.shares_memory = !given.owns_memory;
  }
  if (remainder.users_own.defined())
    arrived.zero_();
  else
    arrived.reset();
  remainder.local.clear();
}

void Remainders::note_local(const NewGradient& given) {
  Remainder& remainder = list_[given.parameter];
  const at::Tensor& arrived = gradient(given.parameter);
  if (!given.owns_memory) remainder.shares_memory = true;
  if (given.is_shared_by_backward()) remainder.shared.set(arrived);
  if (given.is_in_use && !remainder.shared.is(arrived))
    remainder.users_own = arrived;
}

void Remainders::mark_local(std::size_t parameter) {
  if (gradient(parameter).count_nonzero().item<bool>())
    list_[parameter].local.set(parameters_[parameter].tensor);
}

// A tensor that the user has assigned instead of the gradient is the user's
// memory. Unless it is zero, it may contain gradients of this rank alone.
void Remainders::forget_reset() {
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (!list_[i].local.is_set() ||
        !list_[i].local.is_gone(parameters_[i].tensor))
      continue;
    list_[i] = {};
    if (!gradient(i).defined()) continue;
    mark_local(i);
    if (list_[i].local.is_set()) list_[i].users_own = gradient(i);
  }
}

bool Remainders::has_any() const {
  return std::any_of(list_.begin(), list_.end(),
                     [](const Remainder& one) { return one.is_sent(); });
}

Numbers Remainders::to_average() const {
  Numbers parameters;
  for (const std::size_t i : watched_)
    if (list_[i].is_sent()) parameters.push_back(static_cast<std::int64_t>(i));
  return parameters;
}

// Returns the memory of the user where the result must be written, which is
// zero then, or holds gradients of parameters that share it. Undefined: none.
at::Tensor Remainders::take_users_memory(Remainder& remainder,
                                         const at::Tensor& gradient) {
  at::Tensor own = remainder.users_own;
  if (!own.defined() || remainder.gradient.defined()) return own;
  // A remainder of passes without exchange, unless the user has replaced it.
  if (!gradient.is_same(own)) return {};
  remainder.gradient = own.clone();
  remainder.shares_memory = false;
  return own.zero_();
}

// Gradients of earlier passes are equal on all ranks, so the average leaves
// them unchanged.
std::int64_t Remainders::settle(std::size_t parameter, const comm::Group& group,
                                bool is_averaged, const at::Tensor& made) {
  std::int64_t bytes = 0;
  at::Tensor& result = gradient(parameter);
  Remainder& remainder = list_[parameter];
  at::Tensor own = take_users_memory(remainder, result);
  if (remainder.gradient.defined()) result = remainder.gradient;
  if (is_averaged) {
    if (!result.defined())
      result = at::zeros_like(parameters_[parameter].tensor);
    if (remainder.shares_memory) result = result.clone();
    tensor::all_reduce(group, result, {.op = comm::ReduceOp::kAvg}).wait();
    bytes = static_cast<std::int64_t>(result.nbytes());
  }
  if (made.defined()) {
    if (result.defined() && remainder.shares_memory)
      result = result + made;
    else if (result.defined())
      result.add_(made);
    else
      result = made;
  }
  if (own.defined()) result = own.add_(result);
  return bytes;
}

void Remainders::discard(std::size_t parameter, bool stands_for_rows,
                         const at::Tensor& made) {
  const at::NoGradGuard no_grad;
  at::Tensor& current = gradient(parameter);
  Remainder& remainder = list_[parameter];
  const bool is_reset = stands_for_rows || remainder.local.is_unchanged(
                                               parameters_[parameter].tensor);
  remainder.local.clear();  // a reference to the gradient
  if (is_reset) {
    if (!owns_memory(current) && !current.is_same(made))
      remainder.users_own = current;
    if (remainder.users_own.defined())
      current = remainder.users_own.zero_();
    else
      current.reset();
  }
  remainder = {};
}

void Remainders::clear() { list_.assign(parameters_.size(), {}); }

}  // namespace sheaf::parallel
