#include "sheaf/train/files/run_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";
constexpr const char* kLock = "run.lock";

fs::path numbered(const std::string& stem, int number) {
  return fs::path(kRuns) / fmt::format("{}-{:03}", stem, number);
}

// The number in "<stem>-<number>"; 0: another name.
int number_in(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || name.size() < stem.size() + 4 ||
      name[stem.size()] != '-')
    return 0;
  name.remove_prefix(stem.size() + 1);
  int number = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number =
      error == std::errc() && end == name.data() + name.size();
  return is_number && number > 0 && name[0] != '+' ? number : 0;
}

int last_number(const std::string& stem) {
  int last = 0;
  std::error_code none;
  if (!fs::is_directory(kRuns, none)) return last;
  for (const fs::path& entry : entries_of(kRuns))
    last = std::max(last, number_in(entry.filename().string(), stem));
  return last;
}

std::string stem_of(const FolderRequest& request) {
  return fs::path(request.config_name).stem().string();
}

[[noreturn]] void fail_to_create(const fs::path& path, int error) {
  throw IoError(concat("cannot create the folder ", path.string(), ": ",
                       ::strerrordesc_np(error),
                       "; choose another with --output"));
}

// Whether the folder was created, exclusively. Its parents may exist.
bool make_folder(const fs::path& path) {
  const fs::path whole = path.has_filename() ? path : path.parent_path();
  with_io_errors([&] { create_folders(whole.parent_path()); });
  if (::mkdir(whole.c_str(), 0777) == 0) {
    sync_folder(whole.parent_path());
    return true;
  }
  if (errno == EEXIST) return false;
  fail_to_create(path, errno);
}

// Names of the files that runs replace atomically.
bool is_leftover(const fs::path& path) {
  constexpr std::string_view kWritten[] = {
      "config.yaml.tmp.", "log.jsonl.tmp.",     "summary.json.tmp.",
      "routes.json.tmp.", "dad_plan.json.tmp.", "trace.json.tmp.",
      "trace.rank"};
  const std::string name = path.filename().string();
  return is_temporary(path) &&
         std::any_of(std::begin(kWritten), std::end(kWritten),
                     [&](auto start) { return name.starts_with(start); });
}

// The first name that is neither `known` nor a leftover; empty: none.
std::string first_name_in(const fs::path& folder,
                          std::initializer_list<std::string_view> known) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    const bool is_known =
        std::find(known.begin(), known.end(), name) != known.end();
    if (!is_known && !is_leftover(entry)) return name;
  }
  return "";
}

// For a new run.
void check_unused(const fs::path& path) {
  SHEAF_CHECK(first_name_in(path, {kLock}).empty(), "the folder ",
              path.string(),
              " already contains a run; resume it with --resume, or choose "
              "another with --output");
}

}  // namespace

RunFolder::RunFolder(fs::path path)
    : path_(std::move(path)), lock_(path_ / kLock) {
  if (lock_.state() != FileLock::State::kHeldByOther) return;
  const std::string holder = lock_.holder();
  throw FolderInUse(
      concat("another run is using the folder ", path_.string(),
             holder.empty() ? "" : concat(" (", holder, ")"),
             "; wait until it ends or stop it, or choose another folder with "
             "--output"));
}

RunFolder RunFolder::create(const FolderRequest& request) {
  if (request.folder.empty()) return create_numbered(stem_of(request));
  const fs::path path = request.folder;
  std::error_code none;
  SHEAF_CHECK(!fs::exists(path, none) || fs::is_directory(path, none),
              path.string(),
              " is a file, not a folder; choose another with --output");
  if (!make_folder(path)) check_unused(path);
  RunFolder folder(path);
  check_unused(path);
  folder.begin_writing();
  return folder;
}

// A resumption may enter the new folder before this run has locked it.
RunFolder RunFolder::create_numbered(const std::string& stem) {
  for (int number = last_number(stem) + 1;; ++number) {
    if (!make_folder(numbered(stem, number))) continue;
    try {
      RunFolder folder(numbered(stem, number));
      check_unused(folder.path());
      folder.begin_writing();
      return folder;
    } catch (const FolderInUse&) {
      continue;
    }
  }
}

RunFolder RunFolder::open(const FolderRequest& request) {
  const std::string stem = stem_of(request);
  const int last = request.folder.empty() ? last_number(stem) : 0;
  const fs::path path = request.folder.empty()
                            ? numbered(stem, std::max(last, 1))
                            : fs::path(request.folder);
  std::error_code none;
  SHEAF_CHECK(fs::is_directory(path, none), "no run to resume in ",
              path.string(),
              "; give its folder with --output, or omit --resume");
  return RunFolder(path);
}

void RunFolder::check_writable() const {
  if (lock_.state() == FileLock::State::kNotWritable)
    throw IoError(concat("cannot write ", (path_ / kLock).string(), ": ",
                         lock_.problem(),
                         "; a run needs a folder that it can write to"));
}

void RunFolder::begin_writing() {
  check_writable();
  if (lock_.state() == FileLock::State::kNotSupported)
    log_warn(
        "the file system of {} has no locks ({}): make sure that no other run "
        "uses the folder",
        path_.string(), lock_.problem());
  lock_.keep_file();
  lock_.write_holder();
  for (const fs::path& entry : entries_of(path_))
    if (is_leftover(entry)) try_remove_tree(entry);
}

std::string other_file_in(const fs::path& folder) {
  return first_name_in(folder, {kLock, "output.txt"});
}

}  // namespace sheaf::train
