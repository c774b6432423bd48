#include "sheaf/parallel/dad/factor_reducer.hpp"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/parallel/common/worker.hpp"
#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::parallel {
namespace {

// The weights on a factor route, and their biases.
std::vector<std::size_t> parameters_of(const FactorPlan& plan) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < plan.routes.size(); ++i)
    if (plan.routes[i] != Route::kGradient || plan.is_bias[i])
      list.push_back(i);
  return list;
}

}  // namespace

FactorReducer::FactorReducer(std::vector<TrainedParameter> parameters,
                             const comm::Group& group, FactorPlan plan,
                             FactorOptions options, BackwardPass& pass)
    : parameters_(std::move(parameters)),
      plan_(std::move(plan)),
      backward_(pass),
      rows_(parameters_),
      remainders_(parameters_, parameters_of(plan_)),
      schedule_(plan_),
      exchange_(parameters_, group, plan_.routes, options.exchange,
                options.trace),
      queue_(should_overlap(options.overlap, group)) {
  group.set_patient(queue_.is_overlapping());
  exchange_.begin_pass(parameters_[0].tensor.device());
}

FactorReducer::~FactorReducer() {
  *self_ = nullptr;
  queue_.discard();
}

std::vector<BackwardPass::Connection> FactorReducer::connections() {
  std::vector<BackwardPass::Connection> list;
  for (const std::size_t i : remainders_.watched())
    list.push_back({parameters_[i].tensor, this, i});
  return list;
}

void FactorReducer::add(const Product& given) {
  const std::lock_guard lock(mutex_);
  Product product = given;
  // A bias that is also added by other weights may be exchanged as a gradient.
  if (product.bias && !plan_.is_bias[*product.bias]) product.bias.reset();
  const auto ticket = std::make_shared<CallTicket>(rows_.add(product));
  const auto tap = ProductTap::attach(product, handlers(ticket));
  if (plan_.routes[product.weight] != Route::kRankDad)
    seen_.push_back({product.nodes(), product.weight, ticket->block, tap});
  if (backward_.is_syncing()) launch_forward(/*all=*/false);
}

ProductTap::Handlers FactorReducer::handlers(
    std::shared_ptr<CallTicket> ticket) {
  const auto self = self_;
  return {[self, ticket] {
            SHEAF_CHECK(*self,
                        "this graph was recorded before its module changed or "
                        "its DadParallel was destroyed; call forward() again "
                        "before backward()");
            return (*self)->takes_delta(*ticket);
          },
          [self, ticket](const at::Tensor& gradient) {
            (*self)->take_delta(*ticket, ticket->product.delta(gradient));
            // Releases the input, as the graph releases its saved tensors.
            if (!torch::autograd::get_current_graph_task_keep_graph())
              ticket->product.input.reset();
          },
          [self, ticket] {
            if (*self) (*self)->drop(*ticket);
          }};
}

// The gradient is left to backward() if the user needs to see it: if the weight
// has a user hook, or if the user has provided memory for the gradient in a
// pass without exchange. It is also left to backward() if the weight's parcel
// has already been sent, as for a recomputed layer or the graph of an earlier
// pass. It is then a remainder.
bool FactorReducer::takes_delta(const CallTicket& ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (schedule_.is_packed(ticket.product.weight)) return false;
  }
  const auto is_asked_for = [&](std::size_t parameter) {
    const at::Tensor& tensor = parameters_[parameter].tensor;
    // Zeros in memory of the user cannot be distinguished from a reset.
    const bool is_watched = !backward_.is_syncing() &&
                            tensor.grad().defined() && tensor.grad().is_view();
    return is_watched || !torch::autograd::impl::hooks(tensor).empty();
  };
  const auto& bias = ticket.product.bias;
  return !is_asked_for(ticket.product.weight) && !(bias && is_asked_for(*bias));
}

void FactorReducer::take_delta(const CallTicket& ticket,
                               const at::Tensor& given) {
  const bool is_local = !backward_.is_syncing();
  // A delta that is kept for a later backward() may share memory with a
  // gradient that this backward() adds to, so it is copied.
  const at::Tensor delta = is_local ? given.clone() : given;
  if (!is_local) backward_.open();
  const std::lock_guard lock(mutex_);
  rows_.take_delta(ticket, delta, is_local);
  if (is_local) return;
  launch_forward(/*all=*/true);
  launch_backward(/*all=*/false);
}

// Called by the destructor of the product's node, on the thread that releases
// the last reference to it.
void FactorReducer::drop(const CallTicket& ticket) {
  const std::lock_guard lock(mutex_);
  rows_.drop(ticket);
}

void FactorReducer::after_forward(const std::vector<at::Tensor*>& outputs) {
  std::vector<SeenProduct> seen;  // destroyed without the lock; see drop()
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  for (const SeenProduct& one : seen) one.block->source = {};
  if (seen.empty() || !backward_.is_syncing()) return;
  // The order of the layers may differ from that in the forward() of the plan.
  find_delta_sources(seen, outputs,
                     [this](std::size_t above, std::size_t below) {
                       return plan_.routes[below] == Route::kEdad &&
                              schedule_.is_packed_with_or_after(below, above);
                     });
}

void FactorReducer::add(const NewGradient& gradient) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  remainders_.take(gradient);
  rows_.renew_mark(gradient.parameter);
}

void FactorReducer::add_local(const NewGradient& gradient) {
  const std::lock_guard lock(mutex_);
  const std::size_t parameter = gradient.parameter;
  remainders_.note_local(gradient);
  // create_graph replaces gradients instead of adding to them, which looks like
  // a reset.
  SHEAF_CHECK(!rows_.has_local(parameter) || !at::GradMode::is_enabled(),
              "backward() with create_graph in no_sync(), while rows of ",
              parameters_[parameter].name,
              " have not been exchanged yet; call it before the others, or "
              "after the exchange");
  rows_.forget_reset(parameter, /*is_changed=*/true);
  rows_.renew_mark(parameter);
  remainders_.mark_local(parameter);
}

void FactorReducer::forget_reset_gradients() {
  std::vector<SeenProduct> seen;  // left by a forward() that threw
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  // Must precede the first parcel of the pass, which may be sent during
  // forward().
  exchange_.begin_pass(parameters_[0].tensor.device());
  forget_reset(std::nullopt);
}

// `changed`: the parameter to whose gradient backward() has just added.
void FactorReducer::forget_reset(std::optional<std::size_t> changed) {
  remainders_.forget_reset();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    rows_.forget_reset(i, /*is_changed=*/changed == i);
}

bool FactorReducer::has_local() {
  const std::lock_guard lock(mutex_);
  forget_reset(std::nullopt);
  return rows_.has_local() || remainders_.has_any();
}

bool FactorReducer::is_idle() {
  const std::lock_guard lock(mutex_);
  return self_.use_count() == 1 &&  // other references belong to hooks
         rows_.is_empty() && !remainders_.has_any();
}

// Calls with deltas from passes without exchange are sent at the end of this
// pass, because more deltas may arrive for them.
void FactorReducer::begin_pass(std::optional<std::size_t> first) {
  const std::lock_guard lock(mutex_);
  forget_reset(first);
  rows_.begin_pass();
}

void FactorReducer::launch_forward(bool all) {
  const auto is_complete = [this](std::size_t weight) {
    return rows_.has_calls(weight, plan_.calls[weight]);
  };
  while (const auto next = schedule_.next_forward(all, is_complete))
    launch(*next);
}

void FactorReducer::launch_backward(bool all) {
  const auto is_complete = [this](std::size_t weight) {
    return rows_.has_deltas(weight, plan_.calls[weight]);
  };
  while (const auto next = schedule_.next_backward(all, is_complete))
    launch(*next);
}

void FactorReducer::launch(const ParcelSchedule::Next& next) {
  auto parcel = std::make_shared<PackedParcel>();
  parcel->name = concat(next.is_backward ? "deltas " : "inputs ", next.number);
  parcel->place = {exchange_.pass(), schedule_.place_of(next)};
  parcel->is_backward = next.is_backward;
  parcel->parts = rows_.pack(next.weights, next.is_backward);
  if (next.is_last) parcel->remainders = remainders_.to_average();
  schedule_.advance(next);
  queue_.add([this, parcel] { exchange_.send(*parcel); });
}

void FactorReducer::wait_for(std::size_t jobs) {
  const tensor::Scope phase("sheaf::phase exchange");
  const Stopwatch watch;
  queue_.wait_for(jobs);
  exchange_.stats().wait_ms += watch.ms();
}

void FactorReducer::flush() {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  launch_forward(/*all=*/true);
  launch_backward(/*all=*/true);
}

void FactorReducer::finalize() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < plan_.backward.size(); ++i) {
    wait_for(schedule_.jobs_until(i));
    for (const std::size_t weight : plan_.backward[i])
      exchange_.make_gradient(weight);
  }
  for (const std::size_t i : remainders_.watched())
    exchange_.stats().bytes +=
        remainders_.settle(i, exchange_.group(), exchange_.has_remainder(i),
                           exchange_.made_gradient(i));
  exchange_.end_pass();
  remainders_.clear();
  end_pass(std::vector<bool>(parameters_.size(), true));
}

// Gradients and rows that arrived in the pass are lost, and so are those kept
// for the same parameters. Those kept for other parameters stay.
void FactorReducer::discard() noexcept {
  queue_.discard();
  std::vector<bool> is_gone(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!rows_.has_new_delta(i) && !remainders_.has_arrived(i)) continue;
    is_gone[i] = true;
    for (const std::size_t bias : rows_.biases_of(i)) is_gone[bias] = true;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (is_gone[i])
      remainders_.discard(i, /*stands_for_rows=*/rows_.remove_mark(i),
                          exchange_.last_gradient(i));
  end_pass(is_gone);
}

// Keeps rows of passes without exchange, except for parameters in `is_gone`.
void FactorReducer::end_pass(const std::vector<bool>& is_gone) {
  queue_.discard();
  std::vector<SeenProduct> seen;  // destroyed without the lock; see drop()
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  rows_.end_pass(is_gone);
  exchange_.clear();
  schedule_.restart();
}

}  // namespace sheaf::parallel
