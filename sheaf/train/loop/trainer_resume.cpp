// Resuming a run: the checks made before anything is written.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/trainer_run.hpp"
#include "sheaf/train/setup/data_setup.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// Returns a file that was written neither by `sheaf sweep` before a run starts
// nor by a run killed before it wrote config.yaml; empty if there is none.
std::string foreign_file_in(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "output.txt" && !name.starts_with("config.yaml.tmp."))
      return name;
  }
  return "";
}

void forget_best(TrainState& state) {
  state.best = std::numeric_limits<double>::quiet_NaN();
  state.best_step = -1;
  state.best_metric.clear();
}

// Empty if the summary is missing or damaged.
json summary_in(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  if (!fs::exists(file)) return json::object();
  const json summary = json::parse(read_whole(file), nullptr, false);
  return summary.is_object() ? summary : json::object();
}

std::optional<Ending> ending_in(const json& summary) {
  const std::string text = summary.value("ending", "");
  for (const Ending ending : {Ending::kFinished, Ending::kStoppedEarly})
    if (text == name_of(ending)) return ending;
  return std::nullopt;
}

std::optional<MetricValues> metrics_in(const json& summary,
                                       const std::string& prefix) {
  if (!summary.contains(prefix + "loss")) return std::nullopt;
  const auto number = [&](const char* name) {
    const json value = summary.value(prefix + name, json());
    return value.is_number() ? value.get<double>() : MetricValues::kNan;
  };
  MetricValues values;
  values.loss = number("loss");
  values.accuracy = number("accuracy");
  values.precision = number("precision");
  values.recall = number("recall");
  values.f1 = number("f1");
  return values;
}

}  // namespace

void TrainerRun::accept_resumption(Model& model) {
  std::optional<TrainState> latest;
  const std::string folder = from_root(group_, [&] {
    result_.folder =
        open_run_folder({config_.output.folder, options_.config_name, true});
    checkpoints_.emplace(result_.folder / "checkpoints", config_.output.keep);
    latest = checkpoints_->load_latest();
    check_changes(/*has_checkpoint=*/latest.has_value());
    if (!latest) return std::string();  // starts at the first step
    check_fits(*latest, model);
    check_classes(latest->class_names, *sets_.train);
    has_finished_ = has_finished(*latest);
    if (!has_finished_) check_best(*latest);
    return has_finished_ ? result_.folder.string() : std::string();
  });
  has_finished_ = !folder.empty();
  if (has_finished_) result_.folder = folder;
  const auto state = share_state(group_, latest);
  if (!state) return;
  state_ = *state;
  // According to the current patience, which may have changed.
  const int patience = config_.early_stopping.patience;
  state_.has_stopped_early =
      patience > 0 && state_.epochs_since_best >= patience;
  seconds_before_ = state_.totals.seconds;
}

// Restarts the search for the best if its metric has changed or its weights are
// lost.
void TrainerRun::check_best(TrainState& state) const {
  const bool is_changed = std::any_of(
      changes_.begin(), changes_.end(), [](const ConfigChange& one) {
        return one.key == "early_stopping.metric";
      });
  const bool is_other = state.best_metric.empty()
                            ? is_changed
                            : state.best_metric != metric_name();
  if (is_other) {
    forget_best(state);
    state.epochs_since_best = 0;
  }
  if (state.best_step < 0 || state.best_step == state.step) return;
  try {
    checkpoints_->load_step(state.best_step);
  } catch (const IoError& error) {
    log_warn(
        "{}; it had the best {}, {}; the search for the best checkpoint "
        "restarts",
        error.what(), config_.early_stopping.metric, state.best);
    forget_best(state);
  }
}

void TrainerRun::check_changes(bool has_checkpoint) {
  const fs::path file = result_.folder / "config.yaml";
  if (!fs::exists(file)) {
    check_without_config(has_checkpoint);
    return;
  }
  SHEAF_CHECK(has_checkpoint || is_written_config(file), file.string(),
              " was not written by sheaf train, and there is no checkpoint; "
              "give the folder of a run with --output, or omit --resume and "
              "give a new folder");
  changes_ = changes_between(read_config(file), config_);
  std::erase_if(changes_, [](const ConfigChange& one) {
    return one.key == "output.folder";
  });
  const std::string text = changes_text(changes_);
  SHEAF_CHECK(
      text.empty() || options_.accepts_changes, "the run in ",
      result_.folder.string(),
      " was started with different settings, which change its result:", text,
      "\nresume it with the same settings, add --accept-changes to "
      "continue with the new ones, or start a new run");
}

void TrainerRun::check_without_config(bool has_checkpoint) const {
  const std::string folder = result_.folder.string();
  SHEAF_CHECK(!has_checkpoint || options_.accepts_changes, "the run in ",
              folder,
              " has checkpoints but no config.yaml, so its settings are "
              "unknown; restore its config.yaml, or add --accept-changes to "
              "continue with the current settings");
  if (has_checkpoint) return;
  const std::string name = foreign_file_in(result_.folder);
  SHEAF_CHECK(name.empty(), "the folder ", folder,
              " has no config.yaml and no checkpoint, so it is not the folder "
              "of a run, and it contains '",
              name,
              "'; give the folder of a run with --output, or omit --resume "
              "and give a new folder");
}

void TrainerRun::check_fits(const TrainState& state, Model& model) const {
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
  const std::int64_t examples = sets_.train->size();
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
              config_.epochs, ", but the run in ", result_.folder.string(),
              " has started ", begun, "; set at least that many");
  if (!state.metric_sums.empty())
    Metrics(classes()).go_on_with(state.metric_sums);
  tensor::load_state_dict(*model.module, state.weights);
  const NamedTensors parameters = parallel::unique_parameters(*model.module);
  std::vector<torch::Tensor> list;
  for (const auto& [name, parameter] : parameters) list.push_back(parameter);
  const auto optimizer = make_optimizer(config_.optimizer, list);
  load_optimizer_state(*optimizer, parameters, state.optimizer);
}

bool TrainerRun::has_finished(const TrainState& state) const {
  const json summary = summary_in(result_.folder);
  const auto ending = ending_in(summary);
  if (!ending || summary.value("steps", json()) != state.step) return false;
  if (*ending == Ending::kFinished)
    return state.epoch == config_.epochs && state.batch == 0;
  const int patience = config_.early_stopping.patience;
  return state.epoch == config_.epochs ||
         (patience > 0 && state.epochs_since_best >= patience);
}

void TrainerRun::say_resumption() {
  for (const ConfigChange& one : changes_)
    say(concat("changed: ", one.key, " from ", shown(one.before), " to ",
               shown(one.after)));
  if (state_.step > 0)
    say(concat("resumed after step ", state_.step, ", epoch ",
               state_.epoch + 1));
  else if (state_.pretrained_stages > 0)
    say(concat("resumed after ", state_.pretrained_stages,
               " stages of pre-training"));
}

RunResult TrainerRun::finished_result() {
  json summary;
  const std::string text =
      from_root(group_, [&] { return summary_in(result_.folder).dump(); });
  summary = json::parse(text);
  result_.ending = ending_in(summary).value_or(Ending::kFinished);
  result_.steps = state_.step;
  result_.train = metrics_in(summary, "train_").value_or(MetricValues{});
  result_.validation = metrics_in(summary, "validation_");
  result_.test = metrics_in(summary, "test_");
  result_.tested_step = summary.value("tested_step", std::int64_t{-1});
  result_.seconds = summary.value("seconds", 0.0);
  result_.seconds_per_epoch = summary.value("seconds_per_epoch", 0.0);
  result_.exchange_share = summary.value("exchange_share", 0.0);
  result_.skipped_steps = state_.totals.skipped_steps;
  TrainState end;
  learner_->save_to(end);
  result_.weights = end.weights;
  if (is_first() && options_.out)
    *options_.out << "the run in " << result_.folder.string() << " has "
                  << name_of(result_.ending) << " after epoch " << state_.epoch
                  << " and is left unchanged; increase epochs to "
                  << "train it further" << std::endl;
  return result_;
}

}  // namespace sheaf::train
