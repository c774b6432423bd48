#include "sheaf/parallel/data/reducer.hpp"

#include <algorithm>
#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/staging.hpp"
#include "sheaf/parallel/data/sparse.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/nccl_backend.hpp"
#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::parallel {
namespace {

// Below this size, copying gradients into a block costs less than a separate
// message.
constexpr std::size_t kLargeBytes = std::size_t{256} << 10;

ReducerOptions with_exchange(ReducerOptions options) {
  if (!options.exchange) options.exchange = make_plain_exchange();
  return options;
}

}  // namespace

Reducer::Reducer(std::vector<TrainedParameter> parameters,
                 const comm::Group& group, ReducerOptions options)
    : parameters_(std::move(parameters)),
      group_(group),
      options_(with_exchange(std::move(options))),
      claim_(*options_.exchange),
      is_overlapping_(should_overlap(options_.overlap, group)),
      active_(group.size()),
      divisor_(group.size()) {
  options_.exchange->reset();
  group_.set_patient(is_overlapping_);
  states_.resize(parameters_.size());
  late_.resize(parameters_.size());
  kept_.resize(parameters_.size());
  users_own_.resize(parameters_.size());
  earlier_.resize(parameters_.size());
  shared_.resize(parameters_.size());
  never_used_.resize(parameters_.size());
  has_local_.resize(parameters_.size());
  find_homes();
  // Gradients arrive in approximately the reverse order of the layers.
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  make_buckets(order);
  if (const auto sizes = sizes_in_place(); !sizes.empty())
    memory_ = std::make_unique<GradientMemory>(group_, sizes);
}

Reducer::~Reducer() {
  try {
    worker_.drain();
  } catch (...) {
    // Already thrown by backward(), or backward() has not finished.
  }
}

std::vector<BackwardPass::Connection> Reducer::connections() {
  std::vector<BackwardPass::Connection> list;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    list.push_back({parameters_[i].tensor, this, i});
  return list;
}

// Buckets are the same on all ranks, also if their devices differ.
void Reducer::find_homes() {
  std::vector<HomeCode> mine;
  for (const auto& parameter : parameters_)
    mine.push_back(options_.is_staged ? 1
                                      : home_code(parameter.tensor.device()));
  homes_ = agree_on_homes(group_, mine);
}

bool Reducer::is_on_host(std::size_t index) const {
  return parameters_[index].tensor.device().is_cpu() && !options_.is_staged;
}

// Whether the parameter has a separate bucket, so that a rank on the CPU can
// exchange it in place.
bool Reducer::goes_alone(std::size_t index) const {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  return is_sparse ||
         (options_.exchange->takes_outside() && !homes_[index].is_device &&
          tensor.nbytes() >= kLargeBytes);
}

bool Reducer::is_exchanged_in_place(std::size_t index) const {
  return goes_alone(index) &&
         (parameters_[index].is_sparse || is_on_host(index));
}

// The sizes of the gradients that are exchanged in place.
std::vector<std::size_t> Reducer::sizes_in_place() const {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].is_sparse && is_exchanged_in_place(i))
      sizes.push_back(parameters_[i].tensor.nbytes());
  return sizes;
}

void Reducer::make_buckets(const std::vector<std::size_t>& order) {
  std::vector<BucketItem> items;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    items.push_back({parameters_[i].tensor.nbytes(),
                     parameters_[i].tensor.scalar_type(), homes_[i].number,
                     goes_alone(i)});
  buckets_.clear();
  places_.resize(parameters_.size());
  for (const auto& members : plan_buckets(items, order, options_.caps)) {
    std::vector<BucketMember> list;
    for (const std::size_t index : members) {
      places_[index] = {buckets_.size(), list.size()};
      list.push_back(
          {parameters_[index].tensor, index, is_exchanged_in_place(index)});
    }
    buckets_.push_back(
        std::make_unique<Bucket>(group_, std::move(list), options_.is_staged));
  }
  pending_.resize(buckets_.size());
}

// Within join(), no gradient has arrived yet; see ParameterHooks.
void Reducer::begin_pass(std::optional<std::size_t> /*first*/) {
  take_earlier();
  start_pass();
}

void Reducer::start_pass() {
  options_.exchange->begin_pass();
  has_begun_ = true;
  next_launch_ = 0;
  ready_order_.clear();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i]->release_kept();
    pending_[i] = buckets_[i]->size();
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (never_used_[i]) take_nothing(i);
}

void Reducer::add_local(const NewGradient& gradient) {
  has_local_[gradient.parameter] = true;
  if (gradient.is_shared_by_backward())
    shared_[gradient.parameter].set(
        parameters_[gradient.parameter].tensor.grad());
}

bool Reducer::has_local() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (has_local_[i] && parameters_[i].tensor.grad().defined()) return true;
  return false;
}

std::optional<std::size_t> Reducer::index_of(const at::Tensor& tensor) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].tensor.is_same(tensor)) return i;
  return std::nullopt;
}

Reducer::Inheritance Reducer::inheritance() const {
  Inheritance result{{}, {}, pass_, stats_};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    result.parameters.push_back(parameters_[i].tensor);
    if (has_local_[i]) result.local.push_back(parameters_[i].tensor);
  }
  return result;
}

void Reducer::inherit(const Inheritance& old) {
  pass_ = old.pass;
  stats_ = old.stats;
  BucketExchange::Places places;
  for (const at::Tensor& one : old.parameters) places.push_back(index_of(one));
  options_.exchange->renumber(places);
  for (const at::Tensor& one : old.local)
    if (const auto index = index_of(one)) has_local_[*index] = true;
}

void Reducer::add(const NewGradient& gradient) {
  const std::size_t index = gradient.parameter;
  SHEAF_CHECK(!never_used_[index], "parameter ", parameters_[index].name,
              " has a gradient, but had none in the first step, which "
              "static_graph does not allow; turn that option off");
  if (states_[index] == State::kReady) return take_late(index);
  take_gradient(gradient);
  ready_order_.push_back(index);
  launch_complete();
}

void Reducer::take_gradient(const NewGradient& given) {
  const auto [bucket, member] = places_[given.parameter];
  const TrainedParameter& parameter = parameters_[given.parameter];
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (!parameter.is_sparse) {
    if (given.is_in_use && !has_gradient_of_bucket(given.parameter) &&
        !shared_[given.parameter].is(gradient))
      users_own_[given.parameter] = gradient;
    if (gradient.is_sparse())
      buckets_[bucket]->put(member, gradient.to_dense());
    else
      buckets_[bucket]->put(member, gradient, given.owns_memory);
    take_away(given.parameter);
  }
  mark(given.parameter, State::kReady);
}

// The parameter's first gradient may already be in an exchange.
void Reducer::take_late(std::size_t index) {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  SHEAF_CHECK(!is_sparse, "parameter ", name,
              " got a sparse gradient twice in one backward(), from a "
              "nested backward(); make the gradients of its layer dense");
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = tensor.mutable_grad();
  if (late_[index].defined())
    late_[index].add_(gradient);
  else
    late_[index] = gradient.is_sparse()
                       ? gradient.to_dense()
                       : gradient.clone(at::MemoryFormat::Contiguous);
  take_away(index);
}

// Removes the gradient from the parameter, so that nothing remains if
// backward() throws.
void Reducer::take_away(std::size_t index) {
  const at::NoGradGuard no_grad;
  if (users_own_[index].defined())
    users_own_[index].zero_();
  else
    parameters_[index].tensor.mutable_grad().reset();
}

bool Reducer::has_gradient_of_bucket(std::size_t index) const {
  const auto [bucket, member] = places_[index];
  return parameters_[index].tensor.grad().is_same(
      buckets_[bucket]->gradient(member));
}

// Records a gradient of an earlier pass that is in memory of the user.
void Reducer::note_users_own(std::size_t index) {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  if (is_sparse || !tensor.grad().defined() || tensor.grad().is_sparse() ||
      has_gradient_of_bucket(index) || shared_[index].is(tensor.grad()) ||
      owns_memory(tensor.grad()))
    return;
  users_own_[index] = tensor.grad();
}

// A gradient of an earlier pass counts as this rank's contribution: gradients
// of other ranks are added to it. A copy is kept, because the gradient must
// stay bitwise the same if no rank adds to it.
void Reducer::take_nothing(std::size_t index) {
  const auto [bucket, member] = places_[index];
  const at::Tensor& gradient = parameters_[index].tensor.grad();
  if (!gradient.defined()) has_local_[index] = false;  // the user reset it
  if (!parameters_[index].is_sparse) {
    const at::NoGradGuard no_grad;
    note_users_own(index);
    if (gradient.defined())
      kept_[index] =
          gradient.is_sparse() ? gradient.to_dense() : gradient.clone();
    else
      kept_[index].reset();
    buckets_[bucket]->put_nothing(member, kept_[index]);
    if (users_own_[index].defined()) users_own_[index].zero_();
  }
  mark(index, State::kUnused);
}

void Reducer::mark(std::size_t index, State state) {
  states_[index] = state;
  --pending_[places_[index].bucket];
}

void Reducer::launch_complete() {
  while (next_launch_ < buckets_.size() && pending_[next_launch_] == 0)
    launch(next_launch_++);
}

void Reducer::launch(std::size_t bucket) {
  if (Staging* const staging = buckets_[bucket]->staging()) staging->mark();
  if (is_overlapping_) worker_.add([this, bucket] { exchange(bucket); });
}

void Reducer::exchange(std::size_t index) {
  const Stopwatch watch;
  Bucket& bucket = *buckets_[index];
  // The name contains the pass, so that ranks in different passes cannot
  // exchange gradients with each other.
  bucket.set_name(concat("bucket ", index, " of pass ", pass_));
  const TraceSpan span(options_.trace, concat("bucket ", index), "exchange", 1);
  const at::NoGradGuard no_grad;
  if (parameters_[bucket.members()[0].index].is_sparse)
    average_sparse(bucket);
  else if (bucket.staging() == nullptr)
    stats_.bytes += options_.exchange->average(group_, bucket, divisor_);
  else
    average_on_device(bucket);
  stats_.exchange_ms += watch.ms();
  ++stats_.buckets;
}

void Reducer::average_on_device(Bucket& bucket) {
  const at::Tensor& block = bucket.block();
  // NCCL needs all ranks on GPUs.
  const bool is_nccl = tensor::nccl::is_enabled(group_) && block.is_cuda() &&
                       homes_[bucket.members()[0].index].is_device;
  if (is_nccl && options_.exchange->takes_outside()) {
    bucket.staging()->wait_on_device();
    average_over(group_, block, divisor_, bucket.name());
    stats_.bytes += bucket.bytes();
    return;
  }
  bucket.staging()->to_host();
  stats_.bytes += options_.exchange->average(group_, bucket, divisor_);
  bucket.staging()->to_device();
}

void Reducer::average_sparse(Bucket& bucket) {
  const std::size_t index = bucket.members()[0].index;
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  const bool is_used = states_[index] == State::kReady || has_local_[index];
  const auto average = average_sparse_gradient(
      group_, gradient, is_used, parameters_[index].tensor, divisor_);
  stats_.bytes += average.bytes;
  if (average.users > 0) gradient = average.gradient;
}

// Counts the ranks that used each parameter, in one message after all
// gradients.
void Reducer::count_users() {
  users_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    users_[i] = (states_[i] == State::kReady || has_local_[i] ? 1 : 0) +
                (late_[i].defined() ? kLate : 0);
  comm::all_reduce(group_, users_,
                   {.name = concat("users of parameters in pass ", pass_)})
      .wait();
  stats_.bytes += static_cast<std::int64_t>(users_.size() * sizeof users_[0]);
}

void Reducer::finalize() {
  GradientMemory::leave();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (states_[i] == State::kWaiting) take_nothing(i);
  launch_complete();
  const Stopwatch watch;
  {
    const tensor::Scope phase("sheaf::phase exchange");
    finish_exchanges();
  }
  stats_.wait_ms += watch.ms();
  ++stats_.passes;
  end_with(settle());
}

// Ranks that have finished in join() also throw the error.
void Reducer::end_with(const std::vector<std::string>& unused) {
  if (!has_rebuilt_) rebuild();
  if (unused.empty() || options_.find_unused_parameters ||
      options_.static_graph)
    return;
  set_active(group_.size(), group_.size());
  has_unused_ = true;
  std::string list;
  for (const std::string& name : unused) list += "\n  " + name;
  throw UsageError(
      concat("rank ", group_.rank(), ": ", unused.size(),
             " parameters got no gradient on some rank in this backward(); set "
             "find_unused_parameters, or remove them from the module:",
             list));
}

void Reducer::finish_exchanges() {
  if (is_overlapping_) {
    worker_.add([this] { count_users(); });
    return worker_.drain();
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) exchange(i);
  count_users();
}

// Rebuilds the buckets in the order in which gradients arrived on rank 0.
void Reducer::rebuild() {
  has_rebuilt_ = true;
  std::vector<std::int64_t> order(ready_order_.begin(), ready_order_.end());
  std::vector<bool> is_listed(parameters_.size());
  for (const std::int64_t i : order)
    is_listed[static_cast<std::size_t>(i)] = true;
  for (std::size_t i = parameters_.size(); i-- > 0;)
    if (!is_listed[i]) order.push_back(static_cast<std::int64_t>(i));
  comm::broadcast(group_, order, {.name = "order of gradients"}).wait();
  std::vector<bool> is_moved(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    is_moved[i] =
        parameters_[i].tensor.grad().defined() && has_gradient_of_bucket(i);
  const auto old = std::move(buckets_);
  make_buckets({order.begin(), order.end()});
  options_.exchange->reset();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& [name, tensor, is_sparse] = parameters_[i];
    if (!is_moved[i]) continue;
    Bucket& bucket = *buckets_[places_[i].bucket];
    tensor.mutable_grad() = bucket.put(places_[i].member, tensor.grad());
  }
  for (const auto& bucket : buckets_) bucket->clear();
}

// For a rank without data. Memory of the user keeps its content if the other
// ranks have no gradient either.
void Reducer::give_zeros(std::size_t index) {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  const at::NoGradGuard no_grad;
  note_users_own(index);
  const at::Tensor own = users_own_[index];
  const at::Tensor before = own.defined() ? own.clone() : at::Tensor();
  tensor.mutable_grad().reset();
  take_nothing(index);
  if (!own.defined()) return;
  tensor.mutable_grad() = own.zero_();
  kept_[index] = before;
}

void Reducer::shadow_pass() {
  start_pass();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (states_[i] != State::kWaiting) continue;
    give_zeros(i);
  }
  launch_complete();
  finish_exchanges();
  end_with(settle());
}

}  // namespace sheaf::parallel
