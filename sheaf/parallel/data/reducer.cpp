#include "sheaf/parallel/data/reducer.hpp"

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/staging.hpp"
#include "sheaf/parallel/common/worker.hpp"
#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::parallel {
namespace {

ReducerOptions with_exchange(ReducerOptions options) {
  if (!options.exchange) options.exchange = make_plain_exchange();
  return options;
}

BucketLayoutOptions layout_options(const ReducerOptions& options) {
  return {.caps = options.caps,
          .takes_outside = options.exchange->takes_outside(),
          .keeps_zeros = options.exchange->keeps_zeros(),
          .is_staged = options.is_staged};
}

}  // namespace

Reducer::Reducer(std::vector<TrainedParameter> parameters,
                 const comm::Group& group, ReducerOptions options)
    : parameters_(std::move(parameters)),
      options_(with_exchange(std::move(options))),
      averager_(group, options_.exchange, options_.trace),
      layout_(parameters_, group, layout_options(options_)),
      arrivals_(layout_.bucket_numbers()),
      earlier_(parameters_),
      late_(parameters_),
      users_(parameters_.size(), group.size()),
      queue_(should_overlap(options_.overlap, group)) {
  group.set_patient(queue_.is_overlapping());
  if (const auto sizes = layout_.sizes_in_place(); !sizes.empty())
    memory_ = std::make_unique<GradientMemory>(group, sizes);
}

std::vector<BackwardPass::Connection> Reducer::connections() {
  std::vector<BackwardPass::Connection> list;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    list.push_back({parameters_[i].tensor, this, i});
  return list;
}

// Within join(), no gradient has arrived yet; see ParameterHooks.
void Reducer::begin_pass(std::optional<std::size_t> /*first*/) {
  const int ranks = group().size();
  if (users_.active() != ranks && averager_.divisor() == ranks)
    earlier_.set_averages_aside();
  start_pass();
}

void Reducer::start_pass() {
  options_.exchange->begin_pass();
  arrivals_.begin_pass();
  layout_.release_kept();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!users_.is_expected(i)) take_nothing(i);
}

void Reducer::add_local(const NewGradient& gradient) {
  earlier_.note_local(gradient);
}

std::optional<std::size_t> Reducer::index_of(const at::Tensor& tensor) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].tensor.is_same(tensor)) return i;
  return std::nullopt;
}

Reducer::Inheritance Reducer::inheritance() const {
  Inheritance result{{}, {}, averager_.pass(), averager_.stats()};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    result.parameters.push_back(parameters_[i].tensor);
    if (earlier_.is_local(i)) result.local.push_back(parameters_[i].tensor);
  }
  return result;
}

void Reducer::inherit(const Inheritance& old) {
  averager_.set_pass(old.pass);
  averager_.stats() = old.stats;
  BucketExchange::Places places;
  for (const at::Tensor& one : old.parameters) places.push_back(index_of(one));
  options_.exchange->renumber(places);
  for (const at::Tensor& one : old.local)
    if (const auto index = index_of(one)) earlier_.set_local(*index);
}

void Reducer::add(const NewGradient& gradient) {
  const std::size_t index = gradient.parameter;
  SHEAF_CHECK(users_.is_expected(index), "parameter ", parameters_[index].name,
              " has a gradient, but had none in the first step, which "
              "static_graph does not allow; turn that option off");
  if (arrivals_.has_arrived(index)) {
    late_.take(index);
    earlier_.take_away(index);
    return;
  }
  take_gradient(gradient);
  // A bucket with the status waits for the end of backward().
  launch_complete(layout_.size() - (layout_.status_bucket() ? 1 : 0),
                  /*is_status_set=*/false);
}

void Reducer::take_gradient(const NewGradient& given) {
  const TrainedParameter& parameter = parameters_[given.parameter];
  const at::Tensor& gradient = parameter.tensor.grad();
  if (!parameter.is_sparse) {
    earlier_.note_memory(given, layout_.gradient(given.parameter));
    if (gradient.is_sparse())
      layout_.put(given.parameter, gradient.to_dense(), /*owns_memory=*/true);
    else
      layout_.put(given.parameter, gradient, given.owns_memory);
    earlier_.take_away(given.parameter);
  }
  arrivals_.mark_arrived(given.parameter);
}

// A gradient of an earlier pass counts as this rank's contribution: gradients
// of other ranks are added to it.
void Reducer::take_nothing(std::size_t index) {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  if (!tensor.grad().defined()) earlier_.forget_local(index);  // it was reset
  if (!is_sparse) {
    layout_.put_nothing(index, earlier_.keep(index, layout_.gradient(index)));
    earlier_.clear_users_memory(index);
  }
  arrivals_.mark_unused(index);
}

void Reducer::launch_complete(std::size_t end, bool is_status_set) {
  while (const auto bucket = arrivals_.take_complete(end))
    launch(*bucket, is_status_set);
}

void Reducer::launch(std::size_t number, bool is_status_set) {
  Bucket& bucket = layout_[number];
  if (Staging* const staging = bucket.staging()) staging->mark();
  const std::size_t first = bucket.members()[0].index;
  const BucketAverager::Part mine{
      arrivals_.has_arrived(first) || earlier_.is_local(first), is_status_set};
  queue_.add([this, number, &bucket, first, mine] {
    averager_.average(number, bucket, parameters_[first].is_sparse, mine);
  });
}

// Called after backward(). `has_data`: whether this rank has run it.
void Reducer::launch_rest(bool has_data) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    users_.set_own(i, arrivals_.has_arrived(i) || earlier_.is_local(i),
                   late_.has(i));
  launch_complete(layout_.size(), !users_.is_regular(has_data));
  queue_.add([this] { count_users(); });
}

// Needs a message only if some rank is not regular, or if the last bucket does
// not exchange that. All ranks decide the same.
void Reducer::count_users() {
  const Bucket* const last = layout_.status_bucket();
  if (last && !last->is_status_set()) return users_.count_regular();
  averager_.stats().bytes += users_.count(
      group(), concat("users of parameters in pass ", averager_.pass()));
}

void Reducer::flush() {
  GradientMemory::leave();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (arrivals_.is_waiting(i)) take_nothing(i);
  launch_rest(/*has_data=*/true);
}

void Reducer::finalize() {
  const Stopwatch watch;
  {
    const tensor::Scope phase("sheaf::phase exchange");
    queue_.finish();
  }
  averager_.stats().wait_ms += watch.ms();
  ++averager_.stats().passes;
  end_with(settle());
}

// Gives the average to every parameter that any rank has used; the others keep
// their gradients. Returns the names of the parameters that some rank has not
// used.
std::vector<std::string> Reducer::settle() {
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const int users = users_.users(i);
    if (users < users_.active()) unused.push_back(parameters_[i].name);
    if (options_.static_graph && !layout_.is_rebuilt() && users == 0)
      users_.expect_none(i);
    if (parameters_[i].is_sparse) continue;
    if (users > 0)
      earlier_.replace(i, layout_.gradient(i));
    else
      earlier_.restore(i);
  }
  earlier_.add_averages();
  add_late_gradients();
  averager_.set_pass(averager_.pass() + 1);
  earlier_.forget_all_local();
  end_pass();
  return unused;
}

void Reducer::add_late_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (users_.is_late_anywhere(i))
      averager_.stats().bytes += late_.add_average(
          i, group(), averager_.divisor(),
          concat("late gradient ", i, " of pass ", averager_.pass()));
}

// Ranks that have finished in join() also throw the error.
void Reducer::end_with(const std::vector<std::string>& unused) {
  if (!layout_.is_rebuilt()) rebuild();
  if (unused.empty() || options_.find_unused_parameters ||
      options_.static_graph)
    return;
  set_active(group().size(), group().size());
  has_unused_ = true;
  std::string list;
  for (const std::string& name : unused) list += "\n  " + name;
  throw UsageError(
      concat("rank ", group().rank(), ": ", unused.size(),
             " parameters got no gradient on some rank in this backward(); set "
             "find_unused_parameters, or remove them from the module:",
             list));
}

// Rebuilds the buckets in the order in which gradients arrived on rank 0.
void Reducer::rebuild() {
  const auto mine = arrivals_.order();
  std::vector<std::int64_t> order(mine.begin(), mine.end());
  comm::broadcast(group(), order, {.name = "order of gradients"}).wait();
  layout_.rebuild({order.begin(), order.end()});
  arrivals_.set_buckets(layout_.bucket_numbers());
  options_.exchange->reset();
}

// For a rank without data. Memory of the user keeps its content if the other
// ranks have no gradient either.
void Reducer::give_zeros(std::size_t index) {
  const at::Tensor content = earlier_.hide(index, layout_.gradient(index));
  take_nothing(index);
  earlier_.unhide(index, content);
}

void Reducer::shadow_pass() {
  start_pass();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (arrivals_.is_waiting(i)) give_zeros(i);
  launch_rest(/*has_data=*/false);
  queue_.finish();
  end_with(settle());
}

void Reducer::end_pass() {
  arrivals_.end_pass();
  late_.clear();
  earlier_.end_pass();
  layout_.clear();
}

// Gradients that were taken are lost: they are undefined, or zero in memory of
// the user. All others stay.
void Reducer::discard() noexcept {
  queue_.discard();
  if (arrivals_.is_in_pass()) options_.exchange->discard_pass();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    earlier_.discard(i, arrivals_.has_arrived(i));
  earlier_.add_averages();
  end_pass();
}

}  // namespace sheaf::parallel
