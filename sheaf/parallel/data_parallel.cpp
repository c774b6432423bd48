#include "sheaf/parallel/data_parallel.hpp"

#include <algorithm>
#include <exception>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/parallel/agreement.hpp"
#include "sheaf/parallel/module_tensors.hpp"
#include "sheaf/parallel/sync_batch_norm.hpp"
#include "sheaf/parallel/wrapped_parameters.hpp"
#include "sheaf/tensor/collectives.hpp"

namespace sheaf::parallel {
namespace {

// Of names in a saved state.
const std::string kCommon = "common/";
const std::string kOwn = "own/";

// What ranks announce to those that have finished.
enum Word : std::int32_t {
  kFinished = 0,
  kPass = 1,
  kBuffers = 2,
  kChanged = 3
};

ReducerOptions reducer_options(const DataParallelOptions& options) {
  SHEAF_CHECK(options.bucket_mb > 0 && options.first_bucket_mb > 0,
              "bucket_mb ", options.bucket_mb, " and first_bucket_mb ",
              options.first_bucket_mb, " must be above 0");
  constexpr double kMiB = 1 << 20;
  return {.caps = {static_cast<std::size_t>(options.first_bucket_mb * kMiB),
                   static_cast<std::size_t>(options.bucket_mb * kMiB)},
          .find_unused_parameters = options.find_unused_parameters,
          .static_graph = options.static_graph,
          .overlap = options.overlap,
          .exchange = options.exchange,
          .trace = options.trace};
}

}  // namespace

struct DataParallelCore::State {
  std::shared_ptr<torch::nn::Module> module;
  comm::Group group;  // our own: users' operations do not come between
  DataParallelOptions options;
  ModuleTensors tensors;
  std::optional<WrappedParameters> wrapped;
  std::unique_ptr<Reducer> reducer;  // none in a group of one
  BackwardPass pass;
  bool has_join = false;
  JoinOptions join;
  std::int64_t passes = 0;  // since join()
  std::function<void()> before_pass;

  bool keeps(const at::Tensor& parameter) const {
    return std::any_of(
        options.kept.begin(), options.kept.end(),
        [&](const at::Tensor& one) { return one.is_same(parameter); });
  }

  // An error that a pass ends with on all ranks ends join() on all of them.
  bool is_joining() {
    if (reducer && reducer->has_unused()) has_join = false;
    return has_join;
  }
  void set_join(bool is_on) {
    has_join = is_on;
    passes = 0;
    if (reducer) reducer->set_active(group.size(), group.size());
  }
  // What each rank is about to do; `word` is this rank's.
  std::vector<std::int32_t> announce(std::int32_t word) {
    std::vector<std::int32_t> mine{word};
    std::vector<std::int32_t> all(static_cast<std::size_t>(group.size()));
    comm::all_gather(group, mine, all, {.name = "join"}).wait();
    if (std::find(all.begin(), all.end(), kChanged) == all.end()) return all;
    set_join(false);  // on all ranks
    throw UsageError(
        "the module has changed within join(); change it before join() or "
        "after finish()");
  }
  void begin_pass(const std::vector<std::int32_t>& words) {
    const auto active =
        static_cast<int>(std::count(words.begin(), words.end(), kPass));
    reducer->set_active(active,
                        join.divide_by_active_ranks ? active : group.size());
  }
  void send_buffers(const std::vector<std::int32_t>& words) {
    const auto first = std::find(words.begin(), words.end(), kBuffers);
    tensors.buffers.broadcast(group, static_cast<int>(first - words.begin()));
  }
};

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   const comm::Group& group,
                                   DataParallelOptions options)
    : state_(std::make_unique<State>()) {
  SHEAF_CHECK(module, "no module was given to DataParallel");
  if (options.device) module->to(*options.device);
  State& state = *state_;
  state.module = module;
  state.options = std::move(options);
  state.group = group.size() == 1 ? group : group.split(0, group.rank());
  wrap();
  state.pass.set_before_pass([&state] {
    if (state.before_pass) state.before_pass();
    if (!state.is_joining()) return;
    ++state.passes;
    state.begin_pass(state.announce(kPass));
  });
}

DataParallelCore::~DataParallelCore() {
  state_->pass.disconnect();
  state_->reducer.reset();
  if (state_->options.exchange) state_->options.exchange->forget();
}

// Also when the module has changed: gradients of passes without exchange that
// wait for the next pass go on waiting. All parameters may be frozen then: a
// discriminator is, while the generator learns.
void DataParallelCore::wrap() {
  State& state = *state_;
  ModuleTensors now = share_tensors(state.group, *state.module, state.tensors);
  std::erase_if(now.trained,
                [&](const auto& one) { return state.keeps(one.tensor); });
  if (!state.wrapped) check_not_empty(now.trained);
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
    if (state.is_joining()) state.announce(kChanged);  // throws
    agree_on_change(state.group, *changed);
    wrap();
  }
  if (state.pass.is_syncing()) {
    state.reducer->before_forward();
    if (state.options.broadcast_buffers && !state.tensors.buffers.empty()) {
      if (state.is_joining())
        state.send_buffers(state.announce(kBuffers));
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

void DataParallelCore::set_sync(bool is_on) { state_->pass.set_sync(is_on); }

void DataParallelCore::set_before_pass(std::function<void()> action) {
  state_->before_pass = std::move(action);
}

DataParallelCore::Join::Join(DataParallelCore& model,
                             const JoinOptions& options)
    : model_(model) {
  SHEAF_CHECK(model.state_->options.kept.empty(),
              "join() cannot be used where ranks keep gradients to themselves "
              "(SpatialOptions::owns_filters); give ranks without data empty "
              "batches instead");
  SHEAF_CHECK(!model.state_->is_joining(), "join() is already under way");
  if (model.state_->reducer) {
    const std::string layer = first_sync_batch_norm(*model.state_->module);
    // It would wait in its forward for ranks that make no forward any more.
    SHEAF_CHECK(layer.empty(), "join() cannot be used with the layer '", layer,
                "' of ", model.state_->module->name(),
                ", which normalises over all ranks; call "
                "use_local_batch_norm() on the module, or give ranks without "
                "data empty batches instead of join()");
  }
  model.state_->set_join(true);
  model.state_->join = options;
}

DataParallelCore::Join::~Join() {
  if (has_finished_) return;
  if (std::uncaught_exceptions() > 0) {
    model_.state_->set_join(false);
    return;
  }
  try {
    finish();
  } catch (const std::exception& error) {
    log_error("join: {}", error.what());
  }
}

void DataParallelCore::Join::finish() {
  if (std::exchange(has_finished_, true)) return;
  State& state = *model_.state_;
  if (state.reducer && state.is_joining()) {
    for (;;) {
      const auto words = state.announce(kFinished);
      if (std::count(words.begin(), words.end(), kBuffers)) {
        state.send_buffers(words);
      } else if (std::count(words.begin(), words.end(), kPass)) {
        state.begin_pass(words);
        state.reducer->shadow_pass();
      } else {
        break;
      }
    }
    std::vector<std::int64_t> mine{state.passes};
    std::vector<std::int64_t> all(static_cast<std::size_t>(state.group.size()));
    comm::all_gather(state.group, mine, all, {.name = "join"}).wait();
    const auto most = std::max_element(all.begin(), all.end());
    const int root = static_cast<int>(most - all.begin());
    broadcast_tensors(state.group, state.tensors.parameters, root);
    state.tensors.buffers.broadcast(state.group, root);
  }
  state.set_join(false);
}

void DataParallelCore::check_weights() const {
  NamedTensors all = state_->tensors.parameters;
  std::erase_if(
      all, [this](const auto& entry) { return state_->keeps(entry.second); });
  const NamedTensors buffers = state_->tensors.buffers.shared(state_->group);
  all.insert(all.end(), buffers.begin(), buffers.end());
  check_same_bits(state_->group, all);
}

ExchangeStats DataParallelCore::stats() const {
  return state_->reducer ? state_->reducer->stats() : ExchangeStats{};
}

void DataParallelCore::reset_stats() {
  if (state_->reducer) state_->reducer->reset_stats();
}

// What ranks have of their own is stacked, one row for each rank.
NamedTensors DataParallelCore::gather_state() const {
  const auto& exchange = state_->options.exchange;
  NamedTensors list;
  if (!exchange) return list;
  const comm::Group& group = state_->group;
  const ExchangeState mine = exchange->state();
  for (const auto& [name, tensor] : mine.common)
    list.emplace_back(kCommon + name, tensor);
  for (const auto& [name, tensor] : mine.own) {
    std::vector<at::Tensor> rows;
    if (group.rank() == 0)
      for (int i = 0; i < group.size(); ++i)
        rows.push_back(at::empty_like(tensor));
    tensor::gather(group, tensor, rows).wait();
    if (group.rank() == 0) list.emplace_back(kOwn + name, at::stack(rows));
  }
  return list;
}

// On another number of ranks everybody gets the mean, which is what counts.
void DataParallelCore::load_state(const NamedTensors& saved) {
  const auto& exchange = state_->options.exchange;
  const comm::Group& group = state_->group;
  ExchangeState state;
  for (const auto& [name, tensor] : saved) {
    if (name.starts_with(kCommon))
      state.common.emplace_back(name.substr(kCommon.size()), tensor);
    if (name.starts_with(kOwn))
      state.own.emplace_back(name.substr(kOwn.size()),
                             tensor.size(0) == group.size()
                                 ? tensor[group.rank()]
                                 : tensor.mean(0));
  }
  if (exchange && !state.common.empty()) exchange->load(state);
}

const comm::Group& DataParallelCore::group() const { return state_->group; }

const std::optional<torch::Device>& DataParallelCore::device() const {
  return state_->options.device;
}

}  // namespace sheaf::parallel
