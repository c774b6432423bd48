#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/file_lock.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/choice/tuner.hpp"

namespace sheaf::comm {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kSchema = "sheaf.tuned.1";

Json empty_file() {
  return {{"schema", kSchema}, {"topologies", Json::object()}};
}

// A file of another version is treated as empty: times of other code are not
// comparable.
Json load(const fs::path& path) {
  if (path.empty() || !fs::exists(path)) return empty_file();
  try {
    Json file = Json::parse(read_file(path));
    SHEAF_CHECK(file.at("schema") == kSchema, "its schema is not ", kSchema);
    SHEAF_CHECK(file.at("topologies").is_object(),
                "its topologies are not an object");
    return file;
  } catch (const std::exception& error) {
    log_warn("cannot use {}, tuning starts over: {}", path.string(),
             error.what());
    return empty_file();
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
  const Json file = load(path);
  try {
    return file.at("topologies")
        .at(key.topology)
        .at(std::string(name_of(key.dtype)))
        .at(format_bytes_exactly(key.bytes))
        .at("choice")
        .get<std::string>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void remember(const fs::path& path, const TunedKey& key,
              const std::string& choice, double microseconds) {
  if (path.empty()) return;
  try {
    create_folders(path.parent_path());
    const FileLock lock = wait_for_lock(path.string() + ".lock");
    Json file = load(path);
    file["topologies"][key.topology][std::string(name_of(key.dtype))]
        [format_bytes_exactly(key.bytes)] = {{"choice", choice},
                                             {"time_us", microseconds}};
    write_file_atomically(path, file.dump(2) + "\n");
  } catch (const std::exception& error) {
    log_warn("cannot save the tuning results: {}", error.what());
  }
}

}  // namespace sheaf::comm
