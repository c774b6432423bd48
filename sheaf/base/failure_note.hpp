#pragma once
// How a process reports to the launcher that started it (sheaf run) why it
// failed, so that the launcher can name the rank that failed first: exit codes
// and the order in which ranks end do not show who failed because of whom.

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace sheaf {

enum class FailureCause : char {
  kOwn = 'o',    // an error of this process
  kOther = 'p',  // another rank ended, failed or did not come
};

// Of an exception that ends the process: CommErrors are about other ranks.
FailureCause cause_of(const std::exception& error) noexcept;

struct FailureNote {
  FailureCause cause = FailureCause::kOwn;
  std::string text{};  // one line
};

// Leaves a note for the launcher; the last one counts. Does nothing without a
// launcher. Any thread may call it.
void leave_failure_note(FailureCause cause, std::string_view text) noexcept;

// The place for the notes of one process and those that it starts. It has no
// name in a file system, so nothing of it is left behind.
class FailureNotes {
 public:
  FailureNotes();
  ~FailureNotes();
  FailureNotes(const FailureNotes&) = delete;
  FailureNotes& operator=(const FailureNotes&) = delete;

  // Names the place in the environment, for processes started from now on.
  void export_place() const;
  std::optional<FailureNote> last() const;

 private:
  int fd_ = -1;
  std::string token_;
};

}  // namespace sheaf
