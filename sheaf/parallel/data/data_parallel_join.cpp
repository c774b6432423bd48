// join(), for ranks with unequal numbers of steps: each rank announces its next
// operation, and ranks that have finished take part in it without data.

#include <algorithm>
#include <exception>
#include <future>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/parallel/data/data_parallel_state.hpp"

namespace sheaf::parallel {
namespace {

// A thread can be in one join() at a time.
thread_local std::weak_ptr<void> current_join;

void check_same_ranks(const comm::Group& a, const comm::Group& b) {
  bool are_same = a.size() == b.size();
  for (int i = 0; are_same && i < a.size(); ++i)
    are_same = a.world_rank(i) == b.world_rank(i);
  SHEAF_CHECK(are_same,
              "the models of one join() belong to different groups; "
              "wrap them with the same group");
}

}  // namespace

std::shared_ptr<DataParallelCore::JoinState> DataParallelCore::State::joining()
    const {
  const auto found = join.lock();
  return found && !found->has_ended() ? found : nullptr;
}

JoinRound DataParallelCore::State::announce(JoinWord word) const {
  return joining()->announce(word, join_number);
}

// After a failed pass, ranks that have finished still take part in open passes
// of other models and wait for the next announcement. This function ends both.
void DataParallelCore::State::end_join_after_failure() {
  const auto found = join.lock();
  if (!found || !found->is_on || found->models.size() == 1 ||
      !reducer->has_unused())
    return;
  for (State* const one : found->models) {
    try {
      if (one != this) one->pass.close();
    } catch (const UsageError&) {  // another model failed with the same error
    }
  }
  if (found->is_on) found->announce(JoinWord::kFailed);
}

void DataParallelCore::State::share_last() {
  std::vector<std::int64_t> mine{passes};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mine, all, {.name = "join"}).wait();
  const auto most = std::max_element(all.begin(), all.end());
  const int root = static_cast<int>(most - all.begin());
  broadcast_tensors(group, tensors.parameters, root);
  tensors.buffers.broadcast(group, root);
}

bool DataParallelCore::JoinState::has_ended() const {
  return !is_on || std::any_of(models.begin(), models.end(), [](State* one) {
    return one->reducer && one->reducer->has_unused();
  });
}

void DataParallelCore::JoinState::end() {
  is_on = false;
  for (const State* const one : models)
    if (one->reducer) one->set_active(one->group.size(), options);
}

void DataParallelCore::JoinState::fail(const std::string& reason) {
  end();  // on all ranks
  throw UsageError(reason);
}

std::string DataParallelCore::JoinState::place(JoinWord word,
                                               std::size_t model) const {
  return concat(word == JoinWord::kPass ? "backward()" : "forward()",
                models.size() > 1 ? concat(" of model number ", model) : "");
}

JoinRound DataParallelCore::JoinState::announce(JoinWord word,
                                                std::size_t model) {
  std::vector<std::int64_t> mine{static_cast<std::int64_t>(word),
                                 static_cast<std::int64_t>(model)};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mine, all, {.name = "join"}).wait();
  JoinRound round;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto at = 2 * static_cast<std::size_t>(rank);
    const auto its_word = static_cast<JoinWord>(all[at]);
    const auto its_model = static_cast<std::size_t>(all[at + 1]);
    if (its_word == JoinWord::kFinished) continue;
    if (its_word == JoinWord::kChanged)
      fail(
          "the module has changed within join(); change it before join() or "
          "after finish()");
    if (its_word == JoinWord::kMixed)
      fail(
          "no_sync() within join() with gradients from a backward() with "
          "exchange; reset gradients before no_sync()");
    if (its_word == JoinWord::kFailed) {
      end();
      return {its_word, its_model};
    }
    if (round.active++ == 0) {
      round.word = its_word;
      round.model = its_model;
      round.first = rank;
    }
    if (its_word != round.word || its_model != round.model)
      fail(concat("within join(), rank ", rank, " is in ",
                  place(its_word, its_model), " while rank ", round.first,
                  " is in ", place(round.word, round.model),
                  "; all ranks that have data must make the same calls in "
                  "each step"));
  }
  return round;
}

// Passes of different models may overlap: the loss of a GAN's generator depends
// on both models.
void DataParallelCore::JoinState::follow() {
  std::vector<std::future<void>> passes(models.size());
  const auto wait_for = [](std::future<void>& pass) {
    if (pass.valid()) pass.get();
  };
  for (;;) {
    const JoinRound round = announce(JoinWord::kFinished);
    // The failed pass throws below.
    if (round.word == JoinWord::kFailed || round.active == 0) break;
    State& model = *models[round.model];
    wait_for(passes[round.model]);
    if (round.word == JoinWord::kBuffers) {
      model.tensors.buffers.broadcast(model.group, round.first);
      continue;
    }
    model.set_active(round.active, options);
    if (models.size() == 1)
      model.reducer->shadow_pass();
    else
      passes[round.model] = std::async(
          std::launch::async, [&model] { model.reducer->shadow_pass(); });
  }
  for (std::future<void>& pass : passes) wait_for(pass);
}

DataParallelCore::Join::Join(const std::vector<DataParallelCore*>& models,
                             const JoinOptions& options)
    : state_(std::make_shared<JoinState>()) {
  SHEAF_CHECK(!models.empty(), "join_models() needs at least one model");
  state_->options = options;
  for (const DataParallelCore* const model : models) {
    check_can_join(*model);
    state_->models.push_back(model->state_.get());
    check_same_ranks(models[0]->state_->group, model->state_->group);
  }
  const auto other = std::static_pointer_cast<JoinState>(current_join.lock());
  SHEAF_CHECK(!other || other->has_ended() || !models[0]->state_->reducer,
              "join() of another model is already active, and a rank that "
              "has finished could take part in the steps of only one of them; "
              "join them together: auto join = sheaf::join_models({&first, "
              "&second})");
  current_join = state_;
  // A separate group, because a model may make announcements while the
  // gradients of another are being exchanged.
  const comm::Group& first = models[0]->state_->group;
  state_->group = models.size() == 1 || first.size() == 1
                      ? first
                      : first.split(0, first.rank());
  for (std::size_t i = 0; i < state_->models.size(); ++i) {
    State* const one = state_->models[i];
    one->join = state_;
    one->join_number = i;
    one->passes = 0;
    if (!one->reducer) continue;
    one->set_active(one->group.size(), options);
    std::vector<at::Tensor> trained;
    for (const auto& parameter : one->tensors.trained)
      trained.push_back(parameter.tensor);
    state_->hooks.emplace_back(one->pass, trained);
  }
}

void DataParallelCore::Join::check_can_join(const DataParallelCore& model) {
  const State& state = *model.state_;
  SHEAF_CHECK(state.options.kept.empty(),
              "join() cannot be used with parameters that are not exchanged "
              "(SpatialOptions::owns_filters); give ranks without data empty "
              "batches instead");
  SHEAF_CHECK(!state.joining(), "join() is already active");
  if (!state.reducer) return;
  const std::string layer = first_sync_batch_norm(*state.module);
  // The layer's forward would wait for ranks that have finished.
  SHEAF_CHECK(layer.empty(), "join() cannot be used with the layer '", layer,
              "' of ", state.module->name(),
              ", which normalizes over all ranks; call "
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

}  // namespace sheaf::parallel
