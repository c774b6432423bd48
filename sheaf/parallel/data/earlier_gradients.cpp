#include "sheaf/parallel/data/earlier_gradients.hpp"

namespace sheaf::parallel {

void EarlierGradients::note_local(const NewGradient& given) {
  Held& held = held_[given.parameter];
  held.is_local = true;
  if (given.is_shared_by_backward()) held.shared.set(gradient(given.parameter));
}

bool EarlierGradients::has_local() const {
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (held_[i].is_local && gradient(i).defined()) return true;
  return false;
}

bool EarlierGradients::has_average() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const at::Tensor& one = gradient(i);
    if (!held_[i].is_local && one.defined() &&
        (one.is_sparse() ? one._nnz() > 0 : one.count_nonzero().item<bool>()))
      return true;
  }
  return false;
}

void EarlierGradients::set_averages_aside() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    at::Tensor& one = gradient(i);
    if (!one.defined() || held_[i].is_local) continue;
    held_[i].set_aside = one.clone();
    parameters_[i].is_sparse ? one.reset() : void(one.zero_());
  }
}

void EarlierGradients::add_averages() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    at::Tensor& average = held_[i].set_aside;
    if (!average.defined()) continue;
    at::Tensor& one = gradient(i);
    if (!one.defined())
      one = average;
    else if (parameters_[i].is_sparse)
      one = one + average;
    else
      one.add_(average);
    average.reset();
  }
}

void EarlierGradients::note_memory(const NewGradient& given,
                                   const at::Tensor& in_bucket) {
  Held& held = held_[given.parameter];
  const at::Tensor& one = gradient(given.parameter);
  if (given.is_in_use && !one.is_same(in_bucket) && !held.shared.is(one))
    held.users_own = one;
}

void EarlierGradients::take_away(std::size_t parameter) {
  if (held_[parameter].users_own.defined())
    clear_users_memory(parameter);
  else
    gradient(parameter).reset();
}

// Finds a gradient of an earlier pass that is in memory of the user.
void EarlierGradients::find_users_memory(std::size_t parameter,
                                         const at::Tensor& in_bucket) {
  const at::Tensor& one = gradient(parameter);
  if (parameters_[parameter].is_sparse || !one.defined() || one.is_sparse() ||
      one.is_same(in_bucket) || held_[parameter].shared.is(one) ||
      owns_memory(one))
    return;
  held_[parameter].users_own = one;
}

const at::Tensor& EarlierGradients::keep(std::size_t parameter,
                                         const at::Tensor& in_bucket) {
  const at::NoGradGuard no_grad;
  find_users_memory(parameter, in_bucket);
  const at::Tensor& one = gradient(parameter);
  at::Tensor& kept = held_[parameter].kept;
  if (one.defined())
    kept = one.is_sparse() ? one.to_dense() : one.clone();
  else
    kept.reset();
  return kept;
}

void EarlierGradients::clear_users_memory(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  if (held_[parameter].users_own.defined()) held_[parameter].users_own.zero_();
}

at::Tensor EarlierGradients::hide(std::size_t parameter,
                                  const at::Tensor& in_bucket) {
  const at::NoGradGuard no_grad;
  find_users_memory(parameter, in_bucket);
  const at::Tensor& own = held_[parameter].users_own;
  gradient(parameter).reset();
  return own.defined() ? own.clone() : at::Tensor();
}

void EarlierGradients::unhide(std::size_t parameter,
                              const at::Tensor& content) {
  if (!content.defined()) return;
  clear_users_memory(parameter);
  gradient(parameter) = held_[parameter].users_own;
  held_[parameter].kept = content;
}

void EarlierGradients::replace(std::size_t parameter,
                               const at::Tensor& average) {
  gradient(parameter) = average;
  add_to_users_memory(parameter);
}

// The memory of the user was set to zero when its content was taken, or it
// holds gradients of other parameters that share it.
void EarlierGradients::add_to_users_memory(std::size_t parameter) {
  at::Tensor& own = held_[parameter].users_own;
  if (!own.defined()) return;
  const at::NoGradGuard no_grad;
  own.add_(gradient(parameter));
  gradient(parameter) = own;
}

void EarlierGradients::restore(std::size_t parameter) {
  const Held& held = held_[parameter];
  if (!held.kept.defined()) return;
  const at::NoGradGuard no_grad;
  if (held.users_own.defined())
    replace(parameter, held.kept);
  else
    gradient(parameter).copy_(held.kept);
}

void EarlierGradients::discard(std::size_t parameter, bool has_arrived) {
  Held& held = held_[parameter];
  if (held.kept.defined() && gradient(parameter).defined())
    replace(parameter, held.kept);
  if (!has_arrived) return;
  held.is_local = false;
  held.set_aside.reset();
}

void EarlierGradients::end_pass() {
  for (Held& held : held_) {
    held.users_own.reset();
    held.kept.reset();
    held.set_aside.reset();
  }
}

void EarlierGradients::forget_all_local() {
  for (Held& held : held_) held.is_local = false;
}

}  // namespace sheaf::parallel
