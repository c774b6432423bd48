// Sets the parameters' gradients at the end of a pass.

#include <algorithm>

#include "sheaf/parallel/data/reducer.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

// Gives the average to every parameter that any rank has used; the others keep
// their gradients. Returns the names of the parameters that some rank has not
// used.
std::vector<std::string> Reducer::settle() {
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto [bucket, member] = places_[i];
    auto& [name, tensor, is_sparse] = parameters_[i];
    const std::int32_t users = users_[i] % kLate;
    if (users < active_) unused.push_back(name);
    if (options_.static_graph && !has_rebuilt_ && users == 0)
      never_used_[i] = true;
    if (is_sparse) continue;
    if (users > 0) {
      tensor.mutable_grad() = buckets_[bucket]->gradient(member);
      give_to_user(i);
    } else if (kept_[i].defined()) {
      restore_kept(i);
    }
  }
  add_earlier();
  add_late_gradients();
  ++pass_;
  std::fill(has_local_.begin(), has_local_.end(), false);
  end_pass();
  return unused;
}

// Adds the gradient to memory of the user, which was zeroed when its content
// was taken, or which holds gradients of other parameters that share it.
void Reducer::give_to_user(std::size_t index) {
  if (!users_own_[index].defined()) return;
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  users_own_[index].add_(gradient);
  gradient = users_own_[index];
}

void Reducer::restore_kept(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  if (users_own_[index].defined()) {
    gradient = kept_[index];
    give_to_user(index);
  } else {
    gradient.copy_(kept_[index]);
  }
}

// Ranks that have finished in join() have no share in averages of earlier
// passes. These averages are set aside during the pass, and added when it is
// over.
void Reducer::take_earlier() {
  if (active_ == group_.size() || divisor_ != group_.size()) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.defined() || has_local_[i]) continue;
    earlier_[i] = gradient.clone();
    parameters_[i].is_sparse ? gradient.reset() : void(gradient.zero_());
  }
}

void Reducer::add_earlier() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!earlier_[i].defined()) continue;
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.defined())
      gradient = earlier_[i];
    else if (parameters_[i].is_sparse)
      gradient = gradient + earlier_[i];
    else
      gradient.add_(earlier_[i]);
    earlier_[i].reset();
  }
}

bool Reducer::has_average() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].tensor.grad();
    if (!has_local_[i] && gradient.defined() &&
        (gradient.is_sparse() ? gradient._nnz() > 0
                              : gradient.count_nonzero().item<bool>()))
      return true;
  }
  return false;
}

void Reducer::add_late_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (users_[i] < kLate) continue;
    const at::Tensor& tensor = parameters_[i].tensor;
    const at::Tensor late =
        late_[i].defined()
            ? late_[i].to(at::kCPU)
            : at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
    tensor::all_reduce(
        group_, late,
        {.op = comm::ReduceOp::kSum,
         .name = concat("late gradient ", i, " of pass ", pass_)})
        .wait();
    stats_.bytes += static_cast<std::int64_t>(late.nbytes());
    tensor.mutable_grad().add_(late.div_(divisor_).to(tensor.device()));
  }
}

void Reducer::end_pass() {
  has_begun_ = false;
  std::fill(states_.begin(), states_.end(), State::kWaiting);
  for (at::Tensor& late : late_) late.reset();
  for (at::Tensor& kept : kept_) kept.reset();
  for (at::Tensor& one : users_own_) one.reset();
  for (at::Tensor& one : earlier_) one.reset();
  for (const auto& bucket : buckets_) bucket->clear();
}

// Gradients that were taken are lost: they are undefined, or zero in memory of
// the user. All others stay.
void Reducer::discard() noexcept {
  try {
    worker_.drain();
  } catch (...) {  // error of an abandoned exchange
  }
  if (has_begun_) options_.exchange->discard_pass();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (states_[i] == State::kReady) has_local_[i] = false;
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (kept_[i].defined() && gradient.defined()) {
      gradient = kept_[i];
      give_to_user(i);
    }
    if (states_[i] == State::kReady) earlier_[i].reset();
  }
  add_earlier();
  end_pass();
}

}  // namespace sheaf::parallel
