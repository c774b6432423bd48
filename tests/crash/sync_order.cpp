#include "tests/crash/sync_order.hpp"

#include <filesystem>
#include <set>
#include <string>

#include "sheaf/base/error.hpp"
#include "tests/crash/crash_runs.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;

std::string parent(const std::string& path) {
  return fs::path(path).parent_path().string();
}

bool is_unfinished(const std::string& path) {
  return fs::path(path).filename().string().starts_with(".unfinished-");
}

bool is_checkpoint(const std::string& path) {
  return fs::path(path).filename().string().starts_with("step-");
}

class SyncOrder {
 public:
  void add(const Call& call) {
    if (call.name == "write" || call.name == "pwrite64" ||
        call.name == "writev")
      dirty_.insert(call.path);
    else if (call.name == "fsync")
      dirty_.erase(call.path);
    else if (call.name.starts_with("rename"))
      rename(call);
    else if (call.name == "unlink" || call.name == "rmdir")
      remove(call);
    else if (call.changes && call.name != "flock" && call.name != "ftruncate")
      dirty_.insert(parent(call.path));
  }

 private:
  void rename(const Call& call) {
    require(!dirty_.contains(call.path),
            "renamed before it was synced: " + call.path);
    if (is_unfinished(call.path) && is_checkpoint(call.other)) {
      for (const std::string& path : dirty_)
        require(
            !path.starts_with(call.path) && !path.ends_with("/log.jsonl"),
            concat(call.other, " gets its name before ", path, " is synced"));
    }
    if (is_checkpoint(call.path)) replaced_.insert(call.other);
    // An exchange gives the old version the name of the draft.
    if (call.name == "renameat2") replaced_.insert(call.path);
    dirty_.insert(parent(call.path));
    dirty_.insert(parent(call.other));
  }

  void remove(const Call& call) {
    const std::string folder = parent(call.path);
    if (replaced_.contains(folder))
      require(!dirty_.contains(parent(folder)),
              call.path + " is removed before the names are synced");
    dirty_.insert(folder);
  }

  std::set<std::string> dirty_;     // files and folders
  std::set<std::string> replaced_;  // names of old checkpoints
};

}  // namespace

void check_sync_order(const std::vector<Call>& calls) {
  SyncOrder order;
  for (const Call& call : calls) order.add(call);
}

}  // namespace sheaf::crash
