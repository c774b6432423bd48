#pragma once
// A job of a sweep as a child process.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct ChildOptions {
  std::vector<std::string> command;
  // File to append standard output and error to; empty: inherit ours.
  std::filesystem::path log;
  std::function<void()> tick;  // if set, called every 250 ms or sooner
};

struct ChildEnd {
  int code = 0;         // 128 + n for signal n
  int stop_signal = 0;  // stop signal that was forwarded as SIGTERM; 0: none
};

// Runs the command and waits for it. The child leads its own process group, so
// Ctrl-C reaches it only through this process, as SIGTERM; a second Ctrl-C
// sends a second SIGTERM, which stops it at once. The child gets SIGTERM when
// this process dies. `signals` must contain SIGCHLD and the stop signals.
ChildEnd run_child(const ChildOptions& options, SignalQueue& signals);

// The last lines of a text file, at most `count`.
std::vector<std::string> last_lines(const std::filesystem::path& file,
                                    std::size_t count);

}  // namespace sheaf::cli
