#include "sheaf/base/terminate.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/error_text.hpp"
#include "sheaf/base/failure_note.hpp"

namespace sheaf {
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
