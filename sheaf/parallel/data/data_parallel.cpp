#include "sheaf/parallel/data/data_parallel.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/data/common_options.hpp"
#include "sheaf/parallel/data/data_parallel_state.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

bool DataParallelCore::State::keeps(const at::Tensor& parameter) const {
  return is_kept(options, parameter);
}

void DataParallelCore::State::set_active(
    int ranks, const JoinOptions& join_options) const {
  reducer->set_active(
      ranks, join_options.divide_by_active_ranks ? ranks : group.size());
}

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   const comm::Group& group,
                                   DataParallelOptions options)
    : state_(std::make_unique<State>()) {
  SHEAF_CHECK(module, "DataParallel needs a module, got null");
  if (options.device) module->to(*options.device);
  State& state = *state_;
  state.module = module;
  state.options = std::move(options);
  state.group = group.size() == 1 ? group : group.split(0, group.rank());
  auto compared = named(state.options);
  add_kept(state.options, *module, compared);
  check_same_options(state.group, "DataParallel", compared);
  wrap();
  state.pass.set_before_pass([&state] {
    state.claim.check();
    if (state.before_pass) state.before_pass();
    const auto join = state.joining();
    if (!join) return;
    ++state.passes;
    state.set_active(state.announce(JoinWord::kPass).active, join->options);
  });
  state.pass.set_after_failure([&state] { state.end_join_after_failure(); });
}

DataParallelCore::~DataParallelCore() {
  state_->pass.disconnect();
  state_->reducer.reset();
  if (state_->options.exchange) state_->options.exchange->forget();
}

// Also called when the module has changed: gradients of passes without exchange
// are kept for the next pass. All parameters may be frozen then, such as those
// of a discriminator while the generator is trained.
void DataParallelCore::wrap() {
  State& state = *state_;
  ModuleTensors now = share_tensors(state.group, *state.module, state.tensors);
  std::erase_if(now.trained,
                [&](const auto& one) { return state.keeps(one.tensor); });
  if (!state.wrapped) check_not_empty(now.trained);
  if (state.group.size() > 1) state.claim.set(now.trained);
  state.tensors = std::move(now);
  state.wrapped.emplace(*state.module);
  if (state.group.size() == 1) return;
  state.pass.disconnect();
  std::optional<Reducer::Inheritance> old;
  if (state.reducer) old = state.reducer->inheritance();
  state.reducer.reset();
  state.reducer = std::make_unique<Reducer>(state.tensors.trained, state.group,
                                            reducer_options(state.options));
  if (old) state.reducer->inherit(*old);
  state.pass.connect({state.reducer.get()}, state.reducer->connections());
}

void DataParallelCore::before_forward() {
  State& state = *state_;
  if (!state.reducer) return;
  state.pass.discard_broken();
  if (const auto changed = state.wrapped->find_change(*state.module)) {
    if (state.joining()) state.announce(JoinWord::kChanged);  // throws
    agree_on_change(state.group, *changed);
    wrap();
  }
  state.claim.check();
  if (state.pass.is_syncing()) {
    state.reducer->before_forward();
    if (state.options.broadcast_buffers && !state.tensors.buffers.empty()) {
      if (state.joining())
        state.tensors.buffers.broadcast(
            state.group, state.announce(JoinWord::kBuffers).first);
      else
        state.tensors.buffers.broadcast(state.group);
    }
  }
  state.tensors.buffers.begin_forward();
}

void DataParallelCore::after_forward(const std::vector<at::Tensor*>& outputs) {
  if (!state_->reducer) return;
  state_->tensors.buffers.end_forward();
  state_->pass.watch(outputs);
}

void DataParallelCore::share_buffers() {
  if (state_->reducer) state_->tensors.buffers.broadcast(state_->group);
}

bool DataParallelCore::is_syncing() const { return state_->pass.is_syncing(); }

// During join(), averages and local gradients in the same .grad() could not be
// separated again, and ranks that have finished have no share in the local
// ones.
void DataParallelCore::set_sync(bool is_on) {
  State& state = *state_;
  const auto join = state.joining();
  if (!is_on && join && state.reducer &&
      !join->options.divide_by_active_ranks && state.reducer->has_average())
    state.announce(JoinWord::kMixed);  // throws
  state.pass.set_sync(is_on);
}

void DataParallelCore::set_before_pass(std::function<void()> action) {
  state_->before_pass = std::move(action);
}

void DataParallelCore::check_weights() const {
  check_same_weights(state_->group, state_->tensors, state_->options.kept);
}

ExchangeStats DataParallelCore::stats() const {
  return state_->reducer ? state_->reducer->stats() : ExchangeStats{};
}

void DataParallelCore::reset_stats() {
  if (state_->reducer) state_->reducer->reset_stats();
}

NamedTensors DataParallelCore::gather_state() const {
  return gather_exchange_state(state_->group, state_->options.exchange.get());
}

void DataParallelCore::load_state(const NamedTensors& saved) {
  load_exchange_state(state_->group, state_->options.exchange.get(), saved);
}

const comm::Group& DataParallelCore::group() const { return state_->group; }

const std::optional<torch::Device>& DataParallelCore::device() const {
  return state_->options.device;
}

}  // namespace sheaf::parallel
