#pragma once
// The kinds of error, see docs/errors.md. A message says which rank and which
// values are concerned, and what to try next.

#include <sstream>
#include <stdexcept>
#include <string>

namespace sheaf {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller's mistake: a wrong argument, flag, file content or call order.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks of one group called different operations. A caller's mistake, too.
class MismatchError : public UsageError {
 public:
  using UsageError::UsageError;
};

// The world's failures: a peer is gone, a peer is late, a file is unreadable.
class CommError : public Error {
 public:
  using Error::Error;
};
class TimeoutError : public CommError {
 public:
  using CommError::CommError;
};
class IoError : public Error {
 public:
  using Error::Error;
};

// A result is not what its inputs give: a checked reduction that is wrong.
class CheckError : public Error {
 public:
  using Error::Error;
};

// Our own bug.
class InternalError : public Error {
 public:
  using Error::Error;
};

// The exit code that `sheaf` and the examples give for an exception:
// 2 usage, 3 communication, 4 timeout, 5 input/output, 6 wrong result,
// 70 our bug, 1 others.
int exit_code(const std::exception& error) noexcept;

// Joins the arguments as text, in the way of operator<<.
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
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
