#pragma once
// How a process reports why it failed: to its launcher (sheaf run) and, for
// exceptions that nothing catches, to standard error. The launcher can then
// name the rank that failed first: exit codes and the order in which ranks end
// do not show which failure caused the others.

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

// From now on, an exception that no code of this process catches prints the
// line "sheaf: rank RANK: MESSAGE" to standard error, leaves a note for the
// launcher and ends the process with exit_code(), without a core file. Other
// ranks then notice that this rank has died.
//
// A handler that the program installed before with std::set_terminate is kept:
// it is called instead of printing and exiting. The default handler is called
// where there is no exception, such as for a joinable thread that is destroyed.
// Called by init(), first without a rank, so that its own errors are reported,
// too; later calls only set the rank. Thread-safe.
void report_uncaught_exceptions(int rank = -1) noexcept;

}  // namespace sheaf
