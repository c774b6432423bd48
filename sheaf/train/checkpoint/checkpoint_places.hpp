#pragma once
// The names in a folder of checkpoints, and how they change. Whenever the
// process is killed, every checkpoint that was complete is found again.
//
//   step-0000000123       a complete checkpoint
//   step-0000000123.old   one that is being replaced; complete
//   .unfinished-*         a draft, or a checkpoint that is being removed
//   latest, best          links to two of the checkpoints
//   bad-step-0000000123   a damaged checkpoint, set aside
//
// A draft becomes a checkpoint by being renamed. To replace a checkpoint of the
// same step, the two names are exchanged; where the file system cannot do that,
// the old one is renamed to .old first. A checkpoint is renamed to .unfinished-
// before it is removed. Each of these names is on disk before anything that
// relies on it is changed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/train/checkpoint/state_file.hpp"

namespace sheaf::train {

struct CheckpointName {
  std::int64_t step = 0;
  bool is_old = false;

  std::string text() const;  // "step-0000000123"
};
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

// Reads the whole checkpoint in the folder. Throws an IoError if a file is
// missing, cannot be read or differs from its description in state.json.
KnownState verify_checkpoint(const std::filesystem::path& place);

// All functions throw IoError or filesystem_error. Not thread-safe; only one
// process may change the folder.
class CheckpointPlaces {
 public:
  explicit CheckpointPlaces(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(const CheckpointName& name) const {
    return folder_ / name.text();
  }

  // Oldest first. A checkpoint that was being replaced precedes the new one.
  std::vector<CheckpointName> list() const;
  // The checkpoint of a step, which may not exist.
  CheckpointName find(std::int64_t step) const;

  // Creates the folder, removes what a killed run left unfinished, and ends
  // replacements that it began.
  void clean();
  // Creates an empty folder for a draft; nobody else can know its name.
  std::filesystem::path create_draft(std::int64_t step) const;
  // Makes the draft, whose files are on disk, the checkpoint of the step, and
  // waits until its name is on disk. Clears `draft` as soon as it is no longer
  // the name of the draft.
  void publish(std::filesystem::path& draft, std::int64_t step);
  // Removes several checkpoints.
  void remove(const std::vector<CheckpointName>& names);
  // Renames a checkpoint to "bad-...".
  void set_aside(const CheckpointName& name);

  // Makes a link point to the checkpoint of the step; removes it if there is
  // none. A folder in place of the link is removed if it is a copy of a
  // checkpoint (left by tools that follow links); otherwise throws IoError.
  void point_link(const char* link, std::int64_t step);

 private:
  void end_replacement(const CheckpointName& old);
  void replace(std::filesystem::path& draft, const CheckpointName& name);
  void remove_links_to(const CheckpointName& name);
  void remove_copy(const std::filesystem::path& link);
  // A new name beginning with ".unfinished-".
  std::filesystem::path unfinished(const std::string& name) const;
  void remove_renamed(const std::vector<std::filesystem::path>& places) const;

  std::filesystem::path folder_;
  bool has_links_ = true;  // the file system has symbolic links
};

inline constexpr const char* kLatest = "latest";
inline constexpr const char* kBest = "best";

// A folder for the files of a checkpoint. The destructor removes it unless it
// was published. `places` must outlive it.
class Draft {
 public:
  Draft(CheckpointPlaces& places, std::int64_t step)
      : places_(places), step_(step), path_(places.create_draft(step)) {}
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  CheckpointPlaces& places_;
  std::int64_t step_;
  std::filesystem::path path_;  // empty when published
};

}  // namespace sheaf::train
