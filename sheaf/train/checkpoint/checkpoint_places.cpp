#include "sheaf/train/checkpoint/checkpoint_places.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <tuple>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kOld = ".old";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr std::string_view kBad = "bad-";
constexpr std::size_t kDigits = 10;

bool is_there(const fs::path& path) {
  return fs::symlink_status(path).type() != fs::file_type::not_found;
}

bool is_leftover(const std::string& name) {
  return name.starts_with(kUnfinished) ||
         (is_temporary(name) &&
          (name.starts_with(kLatest) || name.starts_with(kBest)));
}

bool is_valid(const fs::path& place) {
  try {
    verify_checkpoint(place);
    return true;
  } catch (const AccessError&) {
    throw;
  } catch (const IoError& error) {
    log_warn("{}", error.what());
    return false;
  }
}

std::string state_of(const fs::path& place) {
  const fs::path file = place / "state.json";
  return is_there(file) ? read_whole(file, kMostStateBytes) : "";
}

}  // namespace

std::string CheckpointName::text() const {
  return fmt::format("{}{:0{}}{}", kPrefix, step, kDigits, is_old ? kOld : "");
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  CheckpointName name;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  std::string_view number = text.substr(kPrefix.size());
  name.is_old = number.ends_with(kOld);
  if (name.is_old) number.remove_suffix(kOld.size());
  const auto parsed =
      std::from_chars(number.data(), number.data() + number.size(), name.step);
  if (parsed.ec != std::errc() || name.text() != text) return std::nullopt;
  return name;
}

KnownState verify_checkpoint(const fs::path& place) {
  KnownState known = parse_state(
      read_whole(place / "state.json", kMostStateBytes), place.string());
  for (const CheckpointFile& file : known.files) {
    const FileSummary found = summarize(place / file.name, file.bytes);
    check_file(file, {file.name, found.bytes, found.checksum}, place.string());
  }
  const auto name = parse_checkpoint_name(place.filename().string());
  if (name && name->step != known.numbers.step)
    fail_as_invalid(place.string(),
                    concat("state.json is that of step ", known.numbers.step));
  return known;
}

std::vector<CheckpointName> CheckpointPlaces::list() const {
  std::vector<CheckpointName> names;
  if (!is_there(folder_)) return names;
  for (const fs::path& entry : entries_of(folder_))
    if (const auto name = parse_checkpoint_name(entry.filename().string()))
      names.push_back(*name);
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.step, !a.is_old) < std::tuple(b.step, !b.is_old);
  });
  return names;
}

CheckpointName CheckpointPlaces::find(std::int64_t step) const {
  const CheckpointName now{step}, old{step, /*is_old=*/true};
  return !is_there(path_of(now)) && is_there(path_of(old)) ? old : now;
}

fs::path CheckpointPlaces::unfinished(const std::string& name) const {
  return temporary_name(folder_ / concat(kUnfinished, name));
}

void CheckpointPlaces::clean() {
  create_folders(folder_);
  std::vector<fs::path> leftovers;
  for (const fs::path& entry : entries_of(folder_))
    if (is_leftover(entry.filename().string())) leftovers.push_back(entry);
  remove_renamed(leftovers);
  for (const CheckpointName& name : list())
    if (name.is_old) end_replacement(name);
}

void CheckpointPlaces::end_replacement(const CheckpointName& old) {
  const CheckpointName now{old.step};
  if (is_there(path_of(now))) {
    if (is_valid(path_of(now))) return remove({old});
    set_aside(now);
  }
  rename_path(path_of(old), path_of(now));
  sync_folder(folder_);
}

fs::path CheckpointPlaces::create_draft(std::int64_t step) const {
  fs::path draft;
  int result = 0;
  do {
    draft = unfinished(CheckpointName{step}.text());
    result = ::mkdir(draft.c_str(), 0777);
  } while (result != 0 && errno == EEXIST);
  if (result != 0)
    throw IoError(concat("cannot create the folder ", draft.string(), ": ",
                         ::strerrordesc_np(errno)));
  return draft;
}

void CheckpointPlaces::publish(fs::path& draft, std::int64_t step) {
  const CheckpointName name{step};
  if (is_there(path_of(name))) return replace(draft, name);
  rename_path(draft, path_of(name));
  draft.clear();
  sync_folder(folder_);
}

void CheckpointPlaces::replace(fs::path& draft, const CheckpointName& name) {
  const CheckpointName old{name.step, /*is_old=*/true};
  if (exchange_names(draft, path_of(name))) {
    const fs::path replaced = std::exchange(draft, {});
    sync_folder(folder_);
    remove_renamed({replaced});
    return;
  }
  remove_links_to(name);
  rename_path(path_of(name), path_of(old));
  sync_folder(folder_);
  rename_path(draft, path_of(name));
  draft.clear();
  sync_folder(folder_);
  remove({old});
}

// A link to a name that does not exist for a while is worse than none.
void CheckpointPlaces::remove_links_to(const CheckpointName& name) {
  for (const char* link : {kLatest, kBest}) {
    std::error_code none;
    if (fs::read_symlink(folder_ / link, none) == name.text())
      fs::remove(folder_ / link);
  }
}

void CheckpointPlaces::remove(const std::vector<CheckpointName>& names) {
  std::vector<fs::path> renamed;
  for (const CheckpointName& name : names) {
    renamed.push_back(unfinished(name.text()));
    rename_path(path_of(name), renamed.back());
  }
  if (renamed.empty()) return;
  sync_folder(folder_);
  remove_renamed(renamed);
}

void CheckpointPlaces::remove_renamed(
    const std::vector<fs::path>& places) const {
  for (const fs::path& place : places)
    if (!try_remove_tree(place))
      log_warn("cannot remove {}: {}", place.string(),
               ::strerrordesc_np(errno));
}

void CheckpointPlaces::set_aside(const CheckpointName& name) {
  const fs::path place = folder_ / concat(kBad, name.text());
  remove_tree(place);
  rename_path(path_of(name), place);
}

void CheckpointPlaces::point_link(const char* link, std::int64_t step) {
  const fs::path path = folder_ / link;
  const std::string target = CheckpointName{step}.text();
  if (fs::is_directory(fs::symlink_status(path))) remove_copy(path);
  if (!is_there(folder_ / target)) {
    fs::remove(path);
  } else if (has_links_ && !replace_link(target, path)) {
    has_links_ = false;
    log_warn(
        "the file system of {} has no symbolic links: {} and {} are not "
        "created",
        folder_.string(), kLatest, kBest);
  }
}

void CheckpointPlaces::remove_copy(const fs::path& link) {
  const std::string text = state_of(link);
  for (const CheckpointName& name : list())
    if (!text.empty() && state_of(path_of(name)) == text) {
      const fs::path away = unfinished(link.filename().string());
      rename_path(link, away);
      return remove_renamed({away});
    }
  throw IoError(concat(link.string(),
                       " is a folder but should be a link to a checkpoint; "
                       "rename or remove it"));
}

Draft::~Draft() {
  if (!path_.empty() && !try_remove_tree(path_))
    log_warn("cannot remove {}", path_.string());
}

void Draft::publish() { places_.publish(path_, step_); }

}  // namespace sheaf::train
