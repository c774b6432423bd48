#pragma once
// The output folder of a run: config.yaml, log.jsonl, summary.json,
// checkpoints/, run.lock, and optionally trace and TensorBoard files.

#include <filesystem>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/file_lock.hpp"

namespace sheaf::train {

struct FolderRequest {
  std::string folder = {};       // empty: runs/<stem>-<number>
  std::string config_name = {};  // "examples/mlp.yaml" gives the stem "mlp"
};

// Another run is using the folder.
class FolderInUse : public UsageError {
 public:
  using UsageError::UsageError;
};

// A run's folder, which no other run can enter while the object exists: its
// file run.lock is locked. If the process is killed, the lock ends. Use it on
// one rank only. Movable; empty if default-constructed.
class RunFolder {
 public:
  RunFolder() = default;

  // Creates a new folder; its number is one more than the greatest that exists.
  // Throws UsageError if the given folder exists and is not empty.
  static RunFolder create(const FolderRequest& request);
  // Opens an existing folder, by default the one with the greatest number, and
  // changes nothing in it. Throws UsageError if there is none, and FolderInUse.
  static RunFolder open(const FolderRequest& request);

  const std::filesystem::path& path() const { return path_; }

  // Throws IoError if the folder could not be locked because it is read-only.
  void check_writable() const;
  // Must be called before anything is written to a folder that was opened.
  // Removes temporary files that a killed run left. Throws like
  // check_writable(). If the file system has no locks, logs a warning.
  void begin_writing();

 private:
  explicit RunFolder(std::filesystem::path path);
  static RunFolder create_numbered(const std::string& stem);

  std::filesystem::path path_;
  FileLock lock_;
};

// The first name in a folder that was not written by a run before its
// config.yaml, or by `sheaf sweep` before the run; empty if there is none.
std::string other_file_in(const std::filesystem::path& folder);

}  // namespace sheaf::train
