#include "sheaf/train/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/checkpoint/checkpoint_state.hpp"
#include "sheaf/train/files/durable.hpp"

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

// Removes drafts left by a killed run.
void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder))
    if (begins_with(entry.path(), kUnfinished))
      leftovers.push_back(entry.path());
  for (const fs::path& one : leftovers) remove_tree(one);
}

// Writes the tensors durably and describes the resulting file.
CheckpointFile write_durable_tensors(const fs::path& file,
                                     const NamedTensors& tensors) {
  tensor::save_state_dict(file, tensors);
  sync_file(file);
  return describe(file.filename().string(), read_whole(file));
}

void append_file(NamedTensors& tensors, const fs::path& place,
                 const CheckpointFile& file) {
  const fs::path path = place / file.name;
  if (!fs::exists(path))
    throw IoError(concat("the checkpoint ", place.string(), " is invalid: ",
                         file.name, " is missing; try an older one"));
  check_file(file, read_whole(path), place.string());
  for (auto& entry : tensor::load_state_dict_file(path))
    tensors.push_back(std::move(entry));
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
  const KnownState known =
      parse_state(read_whole(place / "state.json"), place.string());
  TrainState state = known.numbers;
  const std::size_t shards = known.files.size() / 2;
  for (std::size_t i = 0; i < shards; ++i) {
    append_file(state.weights, place, known.files[i]);
    append_file(state.optimizer, place, known.files[shards + i]);
  }
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
                         " is valid; last error: ", last_error));
  return std::nullopt;
}

TrainState CheckpointFolder::load_step(std::int64_t step) const {
  return load(name_of(step));
}

void CheckpointFolder::save(const TrainState& state) {
  with_io_errors([&] {
    begin(state.step);
    finish(state, write_tensors(state, /*shard=*/0, /*shards=*/1));
  });
}

fs::path CheckpointFolder::draft_of(std::int64_t step) const {
  return folder_ / (std::string(kUnfinished) + name_of(step));
}

void CheckpointFolder::begin(std::int64_t step) {
  fs::create_directories(folder_);
  remove_unfinished(folder_);
  fs::create_directory(draft_of(step));
}

std::vector<CheckpointFile> CheckpointFolder::write_tensors(
    const TrainState& state, int shard, int shards) {
  const fs::path draft = draft_of(state.step);
  return {
      write_durable_tensors(draft / shard_name("weights", shard, shards),
                            state.weights),
      write_durable_tensors(draft / shard_name("optimizer", shard, shards),
                            shard == 0 ? with_rest(state) : state.optimizer)};
}

void CheckpointFolder::finish(const TrainState& state,
                              const std::vector<CheckpointFile>& files) {
  const fs::path draft = draft_of(state.step);
  const std::string name = name_of(state.step);
  write_durably(draft / "state.json", state_text(state, files));
  sync_folder(draft);
  replace_folder(draft, folder_ / name);
  point_links(state);
  sync_folder(folder_);
  remove_old(state);
}

void CheckpointFolder::repair_links(const TrainState& state) {
  with_io_errors([&] { point_links(state); });
}

void CheckpointFolder::point_links(const TrainState& state) {
  point_link(kLatest, state.step);
  point_link(kBest, state.best_step);
}

// Removes the link if there is no such checkpoint: no link is better than a
// wrong one.
void CheckpointFolder::point_link(const char* link, std::int64_t step) {
  const fs::path path = folder_ / link;
  if (fs::is_directory(fs::symlink_status(path))) remove_copy(path);
  if (fs::exists(folder_ / name_of(step)))
    replace_link(name_of(step), path);
  else
    fs::remove(path);
}

void CheckpointFolder::remove_copy(const fs::path& link) {
  const fs::path state = link / "state.json";
  const std::string text = fs::exists(state) ? read_whole(state) : "";
  for (const std::string& name : names())
    if (!text.empty() && fs::exists(folder_ / name / "state.json") &&
        read_whole(folder_ / name / "state.json") == text)
      return remove(link);
  throw IoError(concat(link.string(),
                       " is a folder but should be a link to a checkpoint; "
                       "rename or remove it"));
}

// Renames the folder first, so that a partially removed one is never taken for
// a valid checkpoint.
void CheckpointFolder::remove(const fs::path& place) {
  const fs::path away =
      folder_ / (std::string(kUnfinished) + "old-" + place.filename().string());
  fs::rename(place, away);
  remove_tree(away);
}

void CheckpointFolder::set_aside_after(std::int64_t step) {
  with_io_errors([&] {
    for (const std::string& name : names())
      if (name > name_of(step)) {
        remove_tree(folder_ / ("bad-" + name));
        fs::rename(folder_ / name, folder_ / ("bad-" + name));
      }
  });
}

void CheckpointFolder::remove_old(const TrainState& state) {
  const std::string best = name_of(state.best_step);
  const std::string latest = name_of(state.step);
  const std::vector<std::string> all = names();
  const auto count = static_cast<std::ptrdiff_t>(all.size());
  for (std::ptrdiff_t i = 0; i < count - keep_; ++i) {
    const std::string& name = all[static_cast<std::size_t>(i)];
    if (name != best && name != latest) remove(folder_ / name);
  }
}

}  // namespace sheaf::train
