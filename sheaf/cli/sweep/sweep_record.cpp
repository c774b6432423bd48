#include "sheaf/cli/sweep/sweep_record.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

JobRecord record_from(const JsonValue& job) {
  return {job.value("state", ""), job.value("ranks", 0),
          job.value("attempts", 0), job.value("seconds", 0.0),
          job.value("exit_code", 0)};
}

std::map<std::string, JobRecord> read_records(const fs::path& file) {
  std::map<std::string, JobRecord> records;
  if (!fs::exists(file)) return records;
  const JsonSource source{file.string()};
  try {
    const nlohmann::json whole = parse_json(read_file(file), source);
    for (const JsonValue& job : JsonValue(whole, source).at("jobs").items())
      records[job.at("name").text()] = record_from(job);
  } catch (const IoError&) {
    records.clear();  // not essential: the runs' files have their state
  }
  return records;
}

}  // namespace

SweepRecord::SweepRecord(std::filesystem::path file)
    : file_(std::move(file)), records_(read_records(file_)) {}

JobRecord& SweepRecord::of(const SweepJob& job) { return records_[job.name]; }

void SweepRecord::save(const SweepPlan& plan) const {
  Json jobs = Json::array();
  for (const SweepJob& job : plan.jobs) {
    const auto found = records_.find(job.name);
    const JobRecord record =
        found == records_.end() ? JobRecord{} : found->second;
    jobs.push_back({{"name", job.name},
                    {"folder", job.folder.string()},
                    {"ranks", job.ranks},
                    {"settings", job.settings},
                    {"state", record.state},
                    {"attempts", record.attempts},
                    {"seconds", record.seconds},
                    {"exit_code", record.exit_code}});
  }
  const Json whole{{"base", plan.base.string()}, {"jobs", jobs}};
  // Names of folders need not be UTF-8.
  write_file_atomically(
      file_, whole.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

double SweepRecord::mean_seconds() const {
  double seconds = 0;
  int count = 0;
  for (const auto& [name, record] : records_) {
    if (record.state != "finished" || record.attempts == 0) continue;
    seconds += record.seconds;
    ++count;
  }
  return count == 0 ? 0 : seconds / count;
}

Fd lock_folder(const std::filesystem::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path file = folder / "sweep.lock";
  // No O_CLOEXEC: jobs inherit the lock.
  Fd lock(
      ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666));
  if (!lock.is_open())
    throw IoError(concat("cannot write ", file.string(), ": ",
                         ::strerrordesc_np(errno),
                         "; choose another folder with --output"));
  const bool is_locked = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  SHEAF_CHECK(is_locked || errno != EWOULDBLOCK,
              "another sheaf sweep, or a job that it started, is running in ",
              folder.string(),
              "; wait until it ends, or choose another folder with --output");
  if (!is_locked)
    log_warn(
        "the file system of {} has no locks ({}): make sure that no other "
        "sheaf sweep uses the folder",
        folder.string(), ::strerrordesc_np(errno));
  return lock;
}

}  // namespace sheaf::cli
