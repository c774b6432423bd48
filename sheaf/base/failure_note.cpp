// The note is stored in an in-memory file that the launcher's wrapper keeps
// open and the process opens through /proc. The file starts with a token that
// is repeated in the environment variable. The token prevents a process that
// inherited the variable on another host, or after the wrapper ended, from
// writing to an unrelated file.

#include "sheaf/base/failure_note.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

constexpr const char* kVariable = "SHEAF_FAILURE_NOTE";  // PATH:TOKEN
constexpr std::size_t kTokenBytes = 16;
// File size: token, cause and text, padded with zeros.
constexpr std::size_t kNoteBytes = 1024;
using Record = std::array<char, kNoteBytes>;

std::string draw_token() {
  std::random_device random;
  std::string token;
  for (std::size_t i = 0; i < kTokenBytes; ++i)
    token += "0123456789abcdef"[random() % 16];
  return token;
}

std::string without_newlines(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void write_record(int fd, std::string_view token, FailureCause cause,
                  std::string_view text) {
  Record record{};
  token.copy(record.data(), kTokenBytes);
  record[kTokenBytes] = static_cast<char>(cause);
  text.copy(record.data() + kTokenBytes + 1, kNoteBytes - kTokenBytes - 2);
  if (::pwrite(fd, record.data(), record.size(), 0) < 0) return;
}

bool is_place_of(int fd, std::string_view token) {
  struct stat status {};
  Record record{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
         ::pread(fd, record.data(), record.size(), 0) ==
             static_cast<ssize_t>(record.size()) &&
         std::string_view(record.data(), kTokenBytes) == token;
}

}  // namespace

FailureCause cause_of(const std::exception& error) noexcept {
  const bool is_other = dynamic_cast<const CommError*>(&error) ||
                        dynamic_cast<const FailedOnRoot*>(&error);
  return is_other ? FailureCause::kOther : FailureCause::kOwn;
}

void leave_failure_note(FailureCause cause, std::string_view text) noexcept
    try {
  const char* variable = std::getenv(kVariable);
  if (!variable) return;
  const std::string_view value(variable);
  const std::size_t colon = value.rfind(':');
  if (colon == value.npos || value.size() - colon - 1 != kTokenBytes) return;
  const std::string path(value.substr(0, colon));
  const std::string_view token = value.substr(colon + 1);
  const int fd =
      ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return;
  if (is_place_of(fd, token))
    write_record(fd, token, cause, without_newlines(text));
  ::close(fd);
} catch (const std::exception&) {  // the failure itself is reported elsewhere
}

FailureNotes::FailureNotes()
    : fd_(::memfd_create("sheaf-failure-note", MFD_CLOEXEC)),
      token_(draw_token()) {
  if (fd_ >= 0) write_record(fd_, token_, FailureCause{}, "");
}

FailureNotes::~FailureNotes() {
  if (fd_ >= 0) ::close(fd_);
}

void FailureNotes::export_place() const {
  if (fd_ < 0) return;
  const std::string place =
      concat("/proc/", ::getpid(), "/fd/", fd_, ":", token_);
  ::setenv(kVariable, place.c_str(), /*replace=*/1);
}

std::optional<FailureNote> FailureNotes::last() const {
  Record record{};
  if (fd_ < 0 || ::pread(fd_, record.data(), record.size() - 1, 0) <= 0)
    return std::nullopt;
  const auto cause = static_cast<FailureCause>(record[kTokenBytes]);
  if (cause != FailureCause::kOwn && cause != FailureCause::kOther)
    return std::nullopt;
  return FailureNote{cause, record.data() + kTokenBytes + 1};
}

namespace {

std::atomic<int> g_terminate_rank{-1};
std::terminate_handler g_previous_handler = nullptr;
bool g_is_previous_default = true;
std::atomic<bool> g_is_terminating = false;
thread_local bool t_is_terminating = false;

struct Uncaught {
  std::string text;
  int code = 1;
  FailureCause cause = FailureCause::kOwn;
};

// Sheaf's errors may list ranks, one per line; other errors are cut to one
// line.
Uncaught uncaught_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    const bool is_ours = dynamic_cast<const Error*>(&error) != nullptr;
    return {is_ours ? error.what() : one_line(error), exit_code(error),
            cause_of(error)};
  } catch (...) {
    return {.text = "an exception that is not a std::exception"};
  }
}

// Many messages begin with this rank already.
std::string report_line(const std::string& text) {
  const int rank = g_terminate_rank;
  const std::string prefix = rank < 0 ? "" : concat("rank ", rank, ": ");
  return concat("sheaf: ", text.rfind(prefix, 0) == 0 ? "" : prefix, text,
                "\n");
}

// Writes the line with a single call, so that lines of ranks that share a
// terminal are not mixed.
void print_line(const std::string& line) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

[[noreturn]] void on_terminate() {
  if (t_is_terminating) std::abort();  // the handler itself has failed
  t_is_terminating = true;
  // Another thread is ending the process.
  while (g_is_terminating.exchange(true)) ::pause();
  if (std::current_exception()) {
    const Uncaught uncaught = uncaught_exception();
    leave_failure_note(uncaught.cause, uncaught.text);
    if (g_is_previous_default) {
      print_line(report_line(uncaught.text));
      // Not exit(): destructors could wait for other ranks.
      ::_exit(uncaught.code);
    }
  }
  if (g_previous_handler) g_previous_handler();
  std::abort();
}

bool is_default(std::terminate_handler handler) {
  if (!handler || handler == &std::abort) return true;
#ifdef __GLIBCXX__
  return handler == &__gnu_cxx::__verbose_terminate_handler;
#else
  return false;
#endif
}

}  // namespace

void report_uncaught_exceptions(int rank) noexcept {
  if (rank >= 0) g_terminate_rank = rank;
  static std::once_flag once;
  std::call_once(once, [] {
    g_previous_handler = std::get_terminate();
    g_is_previous_default = is_default(g_previous_handler);
    std::set_terminate(&on_terminate);
  });
}

}  // namespace sheaf
