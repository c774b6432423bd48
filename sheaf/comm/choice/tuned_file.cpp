#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/file_lock.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/choice/tuner.hpp"

namespace sheaf::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

fs::path beside(const fs::path& path, const char* suffix) {
  return path.string() + suffix;
}

// Empty if there is no file, or none that can be used.
struct Loaded {
  TunedResults results;
  bool is_usable = true;
};

Loaded load(const fs::path& path) {
  std::error_code unknown;
  if (path.empty() || !fs::exists(path, unknown)) return {};
  try {
    return {TunedResults::parse(read_file(path, kMostBytes), path.string())};
  } catch (const Error& error) {
    log_warn("cannot use {}, tuning starts over: {}", path.string(),
             error.what());
    return {{}, false};
  }
}

// Keeps processes from replacing each other's results. Does not wait for long:
// the results are only a cache.
FileLock wait_for_lock(const fs::path& path) {
  constexpr auto kPause = std::chrono::milliseconds(10);
  constexpr int kTries = 300;
  FileLock lock(path);
  for (int i = 0; i < kTries && lock.state() == FileLock::State::kHeldByOther;
       ++i) {
    std::this_thread::sleep_for(kPause);
    lock = FileLock(path);
  }
  lock.keep_file();
  return lock;
}

void add(const fs::path& path, const TunedKey& key, const std::string& choice,
         double microseconds) {
  create_folders(path.parent_path());
  const FileLock lock = wait_for_lock(beside(path, ".lock"));
  Loaded loaded = load(path);
  // The results of another version are kept.
  if (!loaded.is_usable) fs::rename(path, beside(path, ".old"));
  loaded.results.set(key, choice, microseconds);
  write_file_atomically(path, loaded.results.text());
}

}  // namespace

fs::path tuned_path() {
  if (const char* file = std::getenv("SHEAF_TUNED_FILE")) return file;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "sheaf" / "tuned.json";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "sheaf" / "tuned.json";
  return {};
}

std::optional<std::string> recall(const fs::path& path, const TunedKey& key) {
  return load(path).results.find(key);
}

void remember(const fs::path& path, const TunedKey& key,
              const std::string& choice, double microseconds) {
  if (path.empty()) return;
  try {
    add(path, key, choice, microseconds);
  } catch (const std::exception& error) {
    log_warn("cannot save the tuning results: {}", error.what());
  }
}

}  // namespace sheaf::comm
