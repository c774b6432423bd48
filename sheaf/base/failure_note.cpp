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
#include <cstdlib>
#include <random>

#include "sheaf/base/error.hpp"

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

}  // namespace sheaf
