#include "sheaf/train/loop/resumption.hpp"

#include <algorithm>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/train/checkpoint/checkpoint_places.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/evaluation.hpp"
#include "sheaf/train/loop/run_output.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

// Values are empty if a config does not have the key.
std::string shown(const std::string& value) {
  return value.empty() ? "unset" : value;
}

std::string changes_text(const std::vector<ConfigChange>& changes) {
  std::string text;
  for (const ConfigChange& one : changes)
    if (one.changes_result)
      text += concat("\n  ", one.key, ": ", shown(one.before), " -> ",
                     shown(one.after));
  return text;
}

// Whether the file was written by `sheaf train`. A run that was killed early
// leaves it without a checkpoint.
bool is_written_config(const fs::path& file) {
  try {
    return print_config(read_config(file)) == read_whole(file);
  } catch (const UsageError&) {
    return false;
  }
}

// Loads the state to resume from, if the config is compatible with the run in
// the folder.
class Resumption {
 public:
  Resumption(TrainingSession& session, const TrainOptions& options)
      : session_(session), config_(session.config()), options_(options) {}

  ResumedRun load();

 private:
  // The next functions run on rank 0 only.
  std::optional<TrainState> load_on_root();
  void check_changes(bool has_checkpoint);
  void check_without_config(bool has_checkpoint) const;
  void check_best(TrainState& state) const;
  void check_fits(const TrainState& state) const;

  TrainingSession& session_;
  const RunConfig& config_;
  const TrainOptions& options_;
  std::optional<CheckpointFolder> checkpoints_;
  ResumedRun run_;
};

ResumedRun Resumption::load() {
  std::optional<TrainState> latest;
  const std::string folder = from_root(session_.group(), [&] {
    latest = load_on_root();
    return run_.has_finished ? run_.folder.path().string() : std::string();
  });
  run_.has_finished = !folder.empty();
  run_.place = folder;
  if (const auto state = share_state(session_.group(), latest))
    run_.state = *state;
  return std::move(run_);
}

std::optional<TrainState> Resumption::load_on_root() {
  run_.folder = RunFolder::open({config_.output.folder, options_.config_name});
  checkpoints_.emplace(run_.folder.path() / "checkpoints", config_.output.keep);
  auto latest = checkpoints_->load_latest();
  check_changes(/*has_checkpoint=*/latest.has_value());
  if (latest) {  // otherwise the run starts at the first step
    check_fits(*latest);
    check_classes(latest->class_names, *session_.sets().train);
    run_.has_finished = has_finished(run_.folder.path(), config_, *latest);
    if (!run_.has_finished) check_best(*latest);
  }
  if (!run_.has_finished) run_.folder.check_writable();
  return latest;
}

// Restarts the search for the best if its metric has changed or its weights are
// lost.
void Resumption::check_best(TrainState& state) const {
  const bool is_changed = std::any_of(
      run_.changes.begin(), run_.changes.end(), [](const ConfigChange& one) {
        return one.key == "early_stopping.metric";
      });
  const std::string name = metric_name(
      config_.early_stopping, session_.loaders().validation.has_value());
  const bool is_other =
      state.best_metric.empty() ? is_changed : state.best_metric != name;
  if (is_other) {
    forget_best(state);
    state.epochs_since_best = 0;
  }
  if (state.best_step < 0 || state.best_step == state.step) return;
  const auto restart = [&](const std::string& why) {
    log_warn(
        "{}; it had the best {}, {}; the search for the best checkpoint "
        "restarts",
        why, config_.early_stopping.metric, state.best);
    forget_best(state);
  };
  // One that cannot be read may be intact: an error, since the result of the
  // run depends on it.
  if (!checkpoints_->contains(state.best_step))
    return restart(concat("the checkpoint ",
                          CheckpointName{state.best_step}.text(),
                          " is missing"));
  try {
    checkpoints_->load_step(state.best_step);
  } catch (const InvalidCheckpoint& error) {
    restart(error.what());
  }
}

void Resumption::check_changes(bool has_checkpoint) {
  const fs::path file = run_.folder.path() / "config.yaml";
  if (!fs::exists(file)) {
    check_without_config(has_checkpoint);
    return;
  }
  SHEAF_CHECK(has_checkpoint || is_written_config(file), file.string(),
              " was not written by sheaf train, and there is no checkpoint; "
              "give the folder of a run with --output, or omit --resume and "
              "give a new folder");
  run_.changes = changes_between(read_config(file), config_);
  std::erase_if(run_.changes, [](const ConfigChange& one) {
    return one.key == "output.folder";
  });
  const std::string text = changes_text(run_.changes);
  SHEAF_CHECK(
      text.empty() || options_.accepts_changes, "the run in ",
      run_.folder.path().string(),
      " was started with different settings, which change its result:", text,
      "\nresume it with the same settings, add --accept-changes to "
      "continue with the new ones, or start a new run");
}

void Resumption::check_without_config(bool has_checkpoint) const {
  const std::string folder = run_.folder.path().string();
  SHEAF_CHECK(!has_checkpoint || options_.accepts_changes, "the run in ",
              folder,
              " has checkpoints but no config.yaml, so its settings are "
              "unknown; restore its config.yaml, or add --accept-changes to "
              "continue with the current settings");
  if (has_checkpoint) return;
  const std::string name = other_file_in(run_.folder.path());
  SHEAF_CHECK(name.empty(), "the folder ", folder,
              " has no config.yaml and no checkpoint, so it is not the folder "
              "of a run, and it contains '",
              name,
              "'; give the folder of a run with --output, or omit --resume "
              "and give a new folder");
}

void Resumption::check_fits(const TrainState& state) const {
  SHEAF_CHECK(
      options_.accepts_changes || (state.seed == config_.seed &&
                                   state.global_batch == config_.global_batch),
      "the checkpoint was made with seed ", state.seed, " and global_batch ",
      state.global_batch, ", but the config has ", config_.seed, " and ",
      config_.global_batch,
      "; resume with the same values, add --accept-changes, or start a new "
      "run");
  // With other batches, the rest of an epoch in progress would be undefined.
  SHEAF_CHECK(state.batch == 0 || (state.seed == config_.seed &&
                                   state.global_batch == config_.global_batch),
              "the checkpoint was made within epoch ", state.epoch + 1,
              " with seed ", state.seed, " and global_batch ",
              state.global_batch,
              "; they can only be changed at the end of an epoch");
  const std::int64_t examples = session_.sets().train->size();
  SHEAF_CHECK(
      state.examples == 0 || state.examples == examples ||
          (options_.accepts_changes && state.batch == 0),
      "the run was started with a training set of ", state.examples,
      " examples, but this one has ", examples,
      state.batch > 0
          ? concat("; the checkpoint was made within epoch ", state.epoch + 1,
                   ", which must be completed with the original set: resume "
                   "with it, or start a new run")
          : "; resume with the same set, add --accept-changes, or start a "
            "new run");
  const std::int64_t begun = state.epoch + (state.batch > 0 ? 1 : 0);
  SHEAF_CHECK(begun <= config_.epochs, config_.where("epochs"), "epochs is ",
              config_.epochs, ", but the run in ", run_.folder.path().string(),
              " has started ", begun, "; set at least that many");
  if (!state.metric_sums.empty())
    Metrics(session_.classes()).go_on_with(state.metric_sums);
  tensor::load_state_dict(session_.module(), state.weights);
  const NamedTensors parameters =
      parallel::unique_parameters(session_.module());
  std::vector<torch::Tensor> list;
  for (const auto& [name, parameter] : parameters) list.push_back(parameter);
  const auto optimizer = make_optimizer(config_.optimizer, list);
  load_optimizer_state(*optimizer, parameters, state.optimizer);
}

}  // namespace

ResumedRun resume(TrainingSession& session, const TrainOptions& options) {
  ResumedRun run = Resumption(session, options).load();
  // According to the current patience, which may have changed.
  const int patience = session.config().early_stopping.patience;
  if (!run.state.weights.empty())
    run.state.has_stopped_early =
        patience > 0 && run.state.epochs_since_best >= patience;
  return run;
}

std::vector<std::string> describe(const ResumedRun& run) {
  std::vector<std::string> lines;
  for (const ConfigChange& one : run.changes)
    lines.push_back(concat("changed: ", one.key, " from ", shown(one.before),
                           " to ", shown(one.after)));
  if (run.state.step > 0)
    lines.push_back(concat("resumed after step ", run.state.step, ", epoch ",
                           run.state.epoch + 1));
  else if (run.state.pretrained_stages > 0)
    lines.push_back(concat("resumed after ", run.state.pretrained_stages,
                           " stages of pre-training"));
  return lines;
}

}  // namespace sheaf::train
