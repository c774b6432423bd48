#include "sheaf/parallel/data_parallel.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <future>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/parallel/agreement.hpp"
#include "sheaf/parallel/module_tensors.hpp"
#include "sheaf/parallel/parameter_claim.hpp"
#include "sheaf/parallel/sync_batch_norm.hpp"
#include "sheaf/parallel/wrapped_parameters.hpp"
#include "sheaf/tensor/collectives.hpp"

namespace sheaf::parallel {
namespace {

// Of names in a saved state.
const std::string kCommon = "common/";
const std::string kOwn = "own/";

// What ranks announce within join(): that they have finished, or what comes
// next, plus kWords times the model's number.
enum Word : std::int32_t {
  kFinished = 0,
  kPass = 1,
  kBuffers = 2,
  kChanged = 3,  // the last three end join() on all ranks
  kMixed = 4,
  kFailed = 5,
  kWords = 6
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
  ParameterClaim claim;
  std::unique_ptr<Reducer> reducer;  // none in a group of one
  BackwardPass pass;
  std::weak_ptr<JoinState> join;
  std::int32_t join_number = 0;  // among its models
  std::int64_t passes = 0;       // since join()
  std::function<void()> before_pass;

  bool keeps(const at::Tensor& parameter) const {
    return std::any_of(
        options.kept.begin(), options.kept.end(),
        [&](const at::Tensor& one) { return one.is_same(parameter); });
  }

  // The join() that is under way, or null.
  std::shared_ptr<JoinState> joining() const;
  std::vector<std::int32_t> announce(Word word) const;
  void begin_pass(const std::vector<std::int32_t>& words,
                  const JoinOptions& join_options) const;
  void end_join_after_failure();
  void send_buffers(const std::vector<std::int32_t>& words) {
    const auto first =
        std::find_if(words.begin(), words.end(),
                     [](std::int32_t word) { return word != kFinished; });
    tensors.buffers.broadcast(group, static_cast<int>(first - words.begin()));
  }
  // All ranks get the weights of one that made the most passes.
  void share_last() {
    std::vector<std::int64_t> mine{passes};
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    comm::all_gather(group, mine, all, {.name = "join"}).wait();
    const auto most = std::max_element(all.begin(), all.end());
    const int root = static_cast<int>(most - all.begin());
    broadcast_tensors(group, tensors.parameters, root);
    tensors.buffers.broadcast(group, root);
  }
};

// Lives as long as the guard that join() returns.
struct DataParallelCore::JoinState {
  std::vector<State*> models;
  comm::Group group;  // of announcements
  JoinOptions options;
  std::deque<ParameterHooks> hooks;  // of all models
  bool is_on = true;

  // An error that a pass ends with on all ranks ends it on all of them.
  bool has_ended() const {
    return !is_on || std::any_of(models.begin(), models.end(), [](State* one) {
      return one->reducer && one->reducer->has_unused();
    });
  }
  void end() {
    is_on = false;
    for (State* const one : models)
      if (one->reducer)
        one->reducer->set_active(one->group.size(), one->group.size());
  }
  // What each rank is about to do; `word` is this rank's. On return those that
  // have not finished are about to do the same.
  std::vector<std::int32_t> announce(std::int32_t word) {
    std::vector<std::int32_t> mine{word};
    std::vector<std::int32_t> all(static_cast<std::size_t>(group.size()));
    comm::all_gather(group, mine, all, {.name = "join"}).wait();
    std::int32_t next = kFinished;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == kFinished) continue;
      if (all[i] % kWords == kChanged)
        fail(
            "the module has changed within join(); change it before join() or "
            "after finish()");
      if (all[i] % kWords == kMixed)
        fail(
            "no_sync() within join(), while there are gradients of a "
            "backward() with exchange; reset gradients before it");
      if (all[i] % kWords == kFailed) {
        end();
        return {};
      }
      if (next == kFinished) next = all[i];
      if (all[i] != next)
        fail(concat("within join(), rank ", i, " is in ", place(all[i]),
                    " while another is in ", place(next),
                    "; all ranks that have data make the same calls in each "
                    "step"));
    }
    return all;
  }
  // Until all ranks have finished. The loss of a GAN's generator goes through
  // both models: their passes overlap.
  void follow() {
    std::vector<std::future<void>> passes(models.size());
    const auto wait_for = [](std::future<void>& pass) {
      if (pass.valid()) pass.get();
    };
    for (;;) {
      const auto words = announce(kFinished);
      if (words.empty()) break;  // the pass that failed throws below
      const auto next = *std::max_element(words.begin(), words.end());
      if (next == kFinished) break;
      const auto number = static_cast<std::size_t>(next / kWords);
      State& model = *models[number];
      wait_for(passes[number]);
      if (next % kWords == kBuffers) {
        model.send_buffers(words);
        continue;
      }
      model.begin_pass(words, options);
      passes[number] = std::async(
          models.size() > 1 ? std::launch::async : std::launch::deferred,
          [&model] { model.reducer->shadow_pass(); });
      if (models.size() == 1) passes[number].get();
    }
    for (std::future<void>& pass : passes) wait_for(pass);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) {
    end();  // on all ranks
    throw UsageError(reason);
  }
  std::string place(std::int32_t word) const {
    return concat(word % kWords == kPass ? "backward()" : "forward()",
                  models.size() > 1
                      ? concat(" of the model number ", word / kWords)
                      : "");
  }
};

std::shared_ptr<DataParallelCore::JoinState> DataParallelCore::State::joining()
    const {
  const auto found = join.lock();
  return found && !found->has_ended() ? found : nullptr;
}

void DataParallelCore::State::begin_pass(
    const std::vector<std::int32_t>& words,
    const JoinOptions& join_options) const {
  const auto is_active = [](std::int32_t word) { return word != kFinished; };
  const auto active =
      static_cast<int>(std::count_if(words.begin(), words.end(), is_active));
  reducer->set_active(
      active, join_options.divide_by_active_ranks ? active : group.size());
}

// Ranks that have finished take part in open passes of other models, and wait
// for the next announcement.
void DataParallelCore::State::end_join_after_failure() {
  const auto found = join.lock();
  if (!found || !found->is_on || found->models.size() == 1 ||
      !reducer->has_unused())
    return;
  for (State* const one : found->models) try {
      if (one != this) one->pass.close();
    } catch (const UsageError&) {  // the same of another model
    }
  if (found->is_on) found->announce(kFailed);
}

std::vector<std::int32_t> DataParallelCore::State::announce(Word word) const {
  return joining()->announce(word + kWords * join_number);
}

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
    state.claim.check();
    if (state.before_pass) state.before_pass();
    const auto join = state.joining();
    if (!join) return;
    ++state.passes;
    state.begin_pass(state.announce(kPass), join->options);
  });
  state.pass.set_after_failure([&state] { state.end_join_after_failure(); });
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
    if (state.joining()) state.announce(kChanged);  // throws
    agree_on_change(state.group, *changed);
    wrap();
  }
  state.claim.check();
  if (state.pass.is_syncing()) {
    state.reducer->before_forward();
    if (state.options.broadcast_buffers && !state.tensors.buffers.empty()) {
      if (state.joining())
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

// Averages could not be told from what is added to them, and ranks that have
// finished have no part in them.
void DataParallelCore::set_sync(bool is_on) {
  State& state = *state_;
  const auto join = state.joining();
  if (!is_on && join && state.reducer &&
      !join->options.divide_by_active_ranks && state.reducer->has_average())
    state.announce(kMixed);  // throws
  state.pass.set_sync(is_on);
}

void DataParallelCore::set_before_pass(std::function<void()> action) {
  state_->before_pass = std::move(action);
}

namespace {

// Ranks that have finished follow one join() at a time.
thread_local std::weak_ptr<void> current_join;

void check_same_ranks(const comm::Group& a, const comm::Group& b) {
  bool are_same = a.size() == b.size();
  for (int i = 0; are_same && i < a.size(); ++i)
    are_same = a.world_rank(i) == b.world_rank(i);
  SHEAF_CHECK(are_same,
              "the models of one join() are of different groups; "
              "wrap them with the same group");
}

}  // namespace

DataParallelCore::Join::Join(const std::vector<DataParallelCore*>& models,
                             const JoinOptions& options)
    : state_(std::make_shared<JoinState>()) {
  SHEAF_CHECK(!models.empty(), "join_models() was given no model");
  state_->options = options;
  for (const DataParallelCore* const model : models) {
    check_can_join(*model);
    state_->models.push_back(model->state_.get());
    check_same_ranks(models[0]->state_->group, model->state_->group);
  }
  const auto other = std::static_pointer_cast<JoinState>(current_join.lock());
  SHEAF_CHECK(!other || other->has_ended() || !models[0]->state_->reducer,
              "join() of another model is under way, and a rank that has "
              "finished would take part in the steps of one of them only; "
              "join them together: auto join = sheaf::join_models({&first, "
              "&second})");
  current_join = state_;
  // Announcements of one model come while another's gradients are exchanged.
  const comm::Group& first = models[0]->state_->group;
  state_->group = models.size() == 1 || first.size() == 1
                      ? first
                      : first.split(0, first.rank());
  std::int32_t number = 0;
  for (State* const one : state_->models) {
    one->join = state_;
    one->join_number = number++;
    one->passes = 0;
    if (!one->reducer) continue;
    one->reducer->set_active(one->group.size(), one->group.size());
    std::vector<at::Tensor> trained;
    for (const auto& parameter : one->tensors.trained)
      trained.push_back(parameter.tensor);
    state_->hooks.emplace_back(one->pass, trained);
  }
}

void DataParallelCore::Join::check_can_join(const DataParallelCore& model) {
  const State& state = *model.state_;
  SHEAF_CHECK(state.options.kept.empty(),
              "join() cannot be used where ranks keep gradients to themselves "
              "(SpatialOptions::owns_filters); give ranks without data empty "
              "batches instead");
  SHEAF_CHECK(!state.joining(), "join() is already under way");
  if (!state.reducer) return;
  const std::string layer = first_sync_batch_norm(*state.module);
  // It would wait in its forward for ranks that make no forward any more.
  SHEAF_CHECK(layer.empty(), "join() cannot be used with the layer '", layer,
              "' of ", state.module->name(),
              ", which normalises over all ranks; call "
              "use_local_batch_norm() on the module, or give ranks without "
              "data empty batches instead of join()");
}

DataParallelCore::Join::~Join() {
  if (has_finished_) return;
  if (std::uncaught_exceptions() > 0) {
    state_->end();
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
  if (state_->models[0]->reducer && !state_->has_ended()) {
    state_->follow();
    for (State* const one : state_->models) one->share_last();
  }
  state_->end();
  state_->hooks.clear();
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
