#include "sheaf/train/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/checkpoint_state.hpp"
#include "sheaf/train/durable.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr const char* kLatest = "latest";
constexpr const char* kBest = "best";

std::string name_of(std::int64_t step) {
  return fmt::format("{}{:010}", kPrefix, step);
}

bool begins_with(const fs::path& path, std::string_view prefix) {
  return path.filename().string().rfind(prefix, 0) == 0;
}

// What a run that was killed has left.
void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder))
    if (begins_with(entry.path(), kUnfinished))
      leftovers.push_back(entry.path());
  for (const fs::path& one : leftovers) fs::remove_all(one);
}

// An IoError in place of the library's own kind.
template <class Body>
void with_io_errors(const Body& body) {
  try {
    body();
  } catch (const fs::filesystem_error& error) {
    throw IoError(concat("checkpoint: ", error.what()));
  }
}

// What is on the disk afterwards.
std::string write_tensors(const fs::path& file, const NamedTensors& tensors) {
  tensor::save_state_dict(file, tensors);
  sync_file(file);
  return read_whole(file);
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, int keep)
    : folder_(std::move(folder)), keep_(keep) {}

std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none))
    if (begins_with(entry.path(), kPrefix))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TrainState CheckpointFolder::load(const std::string& name) const {
  const fs::path place = folder_ / name;
  const CheckpointFiles files{read_whole(place / kWeightsFile),
                              read_whole(place / kOptimizerFile)};
  TrainState state =
      parse_state(read_whole(place / "state.json"), files, place.string());
  state.weights = tensor::load_state_dict_file(place / kWeightsFile);
  state.optimizer = tensor::load_state_dict_file(place / kOptimizerFile);
  take_rest(state);
  return state;
}

std::optional<TrainState> CheckpointFolder::load_latest() const {
  std::vector<std::string> all = names();
  std::string last_error;
  for (auto name = all.rbegin(); name != all.rend(); ++name) {
    try {
      return load(*name);
    } catch (const IoError& error) {
      last_error = error.what();
      log_warn("{}", last_error);
    }
  }
  if (!all.empty())
    throw IoError(concat("none of the ", all.size(), " checkpoints in ",
                         folder_.string(),
                         " is good; the last error: ", last_error));
  return std::nullopt;
}

std::optional<TrainState> CheckpointFolder::load_best() const {
  const std::string name = link_target(kBest);
  if (name.empty()) return std::nullopt;
  return load(name);
}

std::string CheckpointFolder::link_target(const std::string& link) const {
  std::error_code none;
  return fs::read_symlink(folder_ / link, none).string();
}

void CheckpointFolder::save(const TrainState& state, bool is_best) {
  with_io_errors([&] {
    fs::create_directories(folder_);
    remove_unfinished(folder_);
    const std::string name = name_of(state.step);
    write(folder_ / name, state);
    replace_link(name, folder_ / kLatest);
    if (is_best) replace_link(name, folder_ / kBest);
    sync_folder(folder_);
    remove_old();
  });
}

void CheckpointFolder::write(const fs::path& place, const TrainState& state) {
  const fs::path draft =
      folder_ / (std::string(kUnfinished) + place.filename().string());
  fs::create_directory(draft);
  const CheckpointFiles files{
      write_tensors(draft / kWeightsFile, state.weights),
      write_tensors(draft / kOptimizerFile, with_rest(state))};
  write_durably(draft / "state.json", state_text(state, files));
  sync_folder(draft);
  replace_folder(draft, place);
}

// Out of sight first, so that nobody takes a half-removed one for good.
void CheckpointFolder::remove(const fs::path& place) {
  const fs::path away =
      folder_ / (std::string(kUnfinished) + "old-" + place.filename().string());
  fs::rename(place, away);
  fs::remove_all(away);
}

void CheckpointFolder::set_aside_after(std::int64_t step) {
  with_io_errors([&] {
    for (const std::string& name : names())
      if (name > name_of(step)) {
        fs::remove_all(folder_ / ("bad-" + name));
        fs::rename(folder_ / name, folder_ / ("bad-" + name));
      }
  });
}

void CheckpointFolder::remove_old() {
  const std::string best = link_target(kBest);
  const std::string latest = link_target(kLatest);
  const std::vector<std::string> all = names();
  const auto count = static_cast<std::ptrdiff_t>(all.size());
  for (std::ptrdiff_t i = 0; i < count - keep_; ++i) {
    const std::string& name = all[static_cast<std::size_t>(i)];
    if (name != best && name != latest) remove(folder_ / name);
  }
}

}  // namespace sheaf::train
