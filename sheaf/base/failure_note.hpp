#pragma once
// A process reports to its launcher (sheaf run) why it failed, so that the
// launcher can name the rank that failed first. Exit codes and the order in
// which ranks end do not show which failure caused the others.

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace sheaf {

enum class FailureCause : char {
  kOwn = 'o',    // an error of this process
  kOther = 'p',  // another rank ended, failed or did not arrive
};

// Cause of an exception that ends the process: kOther for CommError and
// FailedOnRoot, which are about other ranks, and kOwn for everything else.
FailureCause cause_of(const std::exception& error) noexcept;

struct FailureNote {
  FailureCause cause = FailureCause::kOwn;
  std::string text{};  // one line
};

// Leaves a note for the launcher, replacing any earlier note. Does nothing
// without a launcher. Any thread may call it.
void leave_failure_note(FailureCause cause, std::string_view text) noexcept;

// Receives the notes of one process and its child processes. The storage has no
// name in any file system, so nothing is left behind when the process ends.
class FailureNotes {
 public:
  FailureNotes();
  ~FailureNotes();
  FailureNotes(const FailureNotes&) = delete;
  FailureNotes& operator=(const FailureNotes&) = delete;

  // Publishes the storage in the environment, for processes started afterwards.
  void export_place() const;
  std::optional<FailureNote> last() const;

 private:
  int fd_ = -1;
  std::string token_;
};

}  // namespace sheaf
