#pragma once
// Exception classes; see docs/reference/errors.md. A message names the rank and
// the values concerned, and suggests what to try next.

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>

namespace sheaf {

// Concatenates the arguments as text, each formatted by operator<<.
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Caller error: a wrong argument, flag, file content or call order.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks of one group called different operations.
class MismatchError : public UsageError {
 public:
  using UsageError::UsageError;
};

// Failures outside the program's control. CommError: a peer died or left.
// TimeoutError: a peer is late. IoError: a file cannot be read or written.
class CommError : public Error {
 public:
  using Error::Error;
};
class TimeoutError : public CommError {
 public:
  using CommError::CommError;
};
// A message failed, or its size differs from the expected one. Often a
// consequence of another error: ranks that disagree, or a rank that died.
class TransportError : public CommError {
 public:
  using CommError::CommError;
};
class IoError : public Error {
 public:
  using Error::Error;
};

// A result failed a check, for example a checked reduction outside its bound.
class CheckError : public Error {
 public:
  using Error::Error;
};

// Another rank, usually rank 0, failed and reports the error itself.
class FailedOnRoot : public Error {
 public:
  explicit FailedOnRoot(int code, int rank = 0)
      : Error(concat("rank ", rank, " failed; see its error message")),
        code_(code) {}
  int code() const { return code_; }  // exit code of that rank

 private:
  int code_;
};

// A bug in Sheaf.
class InternalError : public Error {
 public:
  using Error::Error;
};

// Exit code of the `sheaf` command, and of programs that have called init(),
// for an exception: 2 usage, 3 communication, 4 timeout, 5 input/output, 6
// wrong result, 70 bug in Sheaf, 1 any other exception. For FailedOnRoot it is
// the code of the rank that failed.
inline int exit_code(const std::exception& error) noexcept {
  if (dynamic_cast<const UsageError*>(&error)) return 2;
  if (dynamic_cast<const TimeoutError*>(&error)) return 4;
  if (dynamic_cast<const CommError*>(&error)) return 3;
  if (dynamic_cast<const IoError*>(&error)) return 5;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error)) return 5;
  if (dynamic_cast<const CheckError*>(&error)) return 6;
  if (dynamic_cast<const InternalError*>(&error)) return 70;
  if (const auto* failed = dynamic_cast<const FailedOnRoot*>(&error))
    return failed->code();
  return 1;
}

}  // namespace sheaf

#define SHEAF_CHECK(condition, ...)                            \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      throw ::sheaf::UsageError(::sheaf::concat(__VA_ARGS__)); \
  } while (false)

#define SHEAF_ASSERT(condition, ...)                                     \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      throw ::sheaf::InternalError(::sheaf::concat(                      \
          __FILE__, ":", __LINE__, ": '" #condition "' does not hold; ", \
          __VA_ARGS__, " (this is a bug in sheaf, please report it)"));  \
  } while (false)
