#include "tests/crash/crash_runs.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/checkpoint/checkpoint_places.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/run_folder.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Two epochs of three steps; the second checkpoint of an epoch is its last
// step. The best epoch is the first.
constexpr const char* kOrdinary = R"(
data:
  name: synthetic
  arguments: {examples: 22, test_examples: 10, classes: 3, shape: [1, 4, 4]}
  validation: 5
  workers: 0
network: {name: mlp, arguments: {sizes: [16, 8, 3]}}
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9}
schedule: constant
early_stopping: {min_change: 1000000}
epochs: 3
global_batch: 8
seed: 5
threads: 1
output: {log_every: 3, checkpoint_every: 2, keep: 1, trace: true}
)";

constexpr const char* kPretraining = R"(
data:
  name: synthetic
  arguments: {examples: 16, test_examples: 10, classes: 3, shape: [1, 10, 10]}
  workers: 0
network:
  name: gb
  arguments: {image_size: 10, kernels: 3-2, maps: 2, classes: 3}
pretraining: {epochs: 1, learning_rate: 0.1, sparsity: 0.005,
              classifier_epochs: 1}
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.5}
epochs: 1
global_batch: 8
seed: 5
threads: 1
output: {log_every: 1, tensorboard: false}
)";

constexpr const char* kShards = R"(
data:
  name: synthetic
  arguments: {examples: 16, test_examples: 10, classes: 3, shape: [1, 4, 4]}
  workers: 0
network: {name: mlp, arguments: {sizes: [16, 8, 3]}}
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9}
epochs: 3
global_batch: 8
seed: 5
threads: 1
output: {log_every: 1, shards: ranks, keep: 1, tensorboard: false}
)";

bool is_duration(const std::string& key) {
  return key.find("duration") != key.npos || key.find("seconds") != key.npos ||
         key == "exchange_busy" || key == "exchange_share";
}

std::string without_durations(const std::string& line) {
  const auto row = ordered_json::parse(line, nullptr, false);
  require(row.is_object(), "not a JSON object: " + line);
  ordered_json kept = ordered_json::object();
  for (const auto& [key, value] : row.items())
    if (!is_duration(key)) kept[key] = value;
  return kept.dump() + "\n";
}

// Names of event files contain the time.
std::string plain_name(const std::string& name) {
  return name.starts_with("events.out.") ? "events" : name;
}

// Earlier traces and several event files are those of a resumed run.
bool is_counted(const std::string& name) {
  return !name.starts_with("trace.json.") && name != "result";
}

std::string read(const fs::path& file) {
  try {
    return train::read_whole(file);
  } catch (const IoError& error) {
    throw Lost(error.what());
  }
}

}  // namespace

const std::vector<RunKind>& run_kinds() {
  static const std::vector<RunKind> kinds{{"run", kOrdinary},
                                          {"pre-training", kPretraining},
                                          {"shards", kShards, /*ranks=*/2}};
  return kinds;
}

int execute(const RunKind& kind, const fs::path& folder, bool is_resumed) {
  train::RunConfig config =
      train::complete(train::parse_config(kind.config, "run.yaml", {}));
  config.output.folder = folder.string();
  train::TrainOptions options;
  options.config_name = "run.yaml";
  options.is_resumed = is_resumed;
  comm::run_threads(kind.ranks, [&](const comm::Group& group) {
    train::run(group, config, options);
  });
  return 0;
}

std::string describe(const Progress& progress) {
  if (progress.step < 0) return "no checkpoint";
  return concat("step ", progress.step, " after ", progress.pretrained_stages,
                " stages");
}

Progress progress_in(const fs::path& checkpoint) {
  try {
    const auto known = train::verify_checkpoint(checkpoint);
    return {known.numbers.step, known.numbers.pretrained_stages};
  } catch (const IoError& error) {
    throw Lost(error.what());
  }
}

Progress newest_progress(const fs::path& folder) {
  const train::CheckpointPlaces places(folder / "checkpoints");
  const auto all = places.list();
  if (all.empty()) return {};
  return progress_in(places.path_of(all.back()));
}

Result result_in(const fs::path& folder) {
  Result result;
  std::istringstream log(read(folder / "log.jsonl"));
  for (std::string line; std::getline(log, line);)
    result.log += without_durations(line);
  result.summary = without_durations(read(folder / "summary.json"));
  result.config = read(folder / "config.yaml");
  std::set<std::string> names, tensors;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!is_counted(name)) continue;
    const std::string place =
        fs::relative(entry.path().parent_path(), folder).string();
    std::string line = concat(place, "/", plain_name(name));
    if (entry.is_symlink())
      line += " -> " + fs::read_symlink(entry.path()).string();
    names.insert(line);
    if (name.starts_with("weights"))
      tensors.insert(
          concat(line, " ", train::summarize(entry.path()).checksum));
  }
  for (const std::string& line : tensors) result.tensors += line + "\n";
  for (const std::string& name : names) result.names += name + "\n";
  return result;
}

void expect_same(const Result& result, const Result& reference,
                 bool may_have_bad) {
  const auto compare = [](const char* what, const std::string& found,
                          const std::string& wanted) {
    require(found == wanted,
            concat(what, " differs; found:\n", found, "wanted:\n", wanted));
  };
  compare("the log", result.log, reference.log);
  compare("summary.json", result.summary, reference.summary);
  compare("config.yaml", result.config, reference.config);
  if (may_have_bad) return;
  compare("the list of files", result.names, reference.names);
  compare("the checksums of weights", result.tensors, reference.tensors);
}

void expect_consistent(const fs::path& folder) {
  const train::CheckpointPlaces places(folder / "checkpoints");
  for (const auto& name : places.list()) progress_in(places.path_of(name));
  for (const char* link : {train::kLatest, train::kBest}) {
    const fs::path path = places.folder() / link;
    std::error_code none;
    if (fs::is_symlink(path, none))
      progress_in(places.folder() / fs::read_symlink(path));
  }
}

void expect_lock(const fs::path& folder, bool is_held) {
  bool is_in_use = false;
  try {
    train::RunFolder::open({.folder = folder.string()});
  } catch (const train::FolderInUse&) {
    is_in_use = true;
  }
  require(is_in_use == is_held,
          is_held ? "a second run can enter" : "the folder is still locked");
}

}  // namespace sheaf::crash
