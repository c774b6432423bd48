// Processes that tune at the same time, such as jobs of one user, read and
// replace the file under a lock, on a file of its own beside it: the file
// itself is replaced by a rename.
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/choice/tuner.hpp"

namespace sheaf::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
// The lock is held for milliseconds, but the calls of a job wait for it.
constexpr std::chrono::seconds kLockTime{10};
constexpr std::chrono::milliseconds kLockPause{2};

class Lock {
 public:
  explicit Lock(const fs::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                     0666)) {
    if (file_ < 0)
      throw IoError(concat("cannot open ", path.string(), ": ",
                           ::strerrordesc_np(errno)));
    const auto end = std::chrono::steady_clock::now() + kLockTime;
    // A file system without locks (ENOLCK, EOPNOTSUPP) is used without.
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (std::chrono::steady_clock::now() > end) {
        ::close(file_);
        throw IoError(concat(path.string(), " is locked by another process"));
      }
      std::this_thread::sleep_for(kLockPause);
    }
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

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

void add(const fs::path& path, const TunedKey& key, const std::string& choice,
         double microseconds) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  const Lock lock(beside(path, ".lock"));
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
