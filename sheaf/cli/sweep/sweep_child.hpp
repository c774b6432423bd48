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
  // Its output goes behind what is in this file; empty: to where ours goes.
  std::filesystem::path log;
  std::function<void()> tick;  // called now and then, if there is one
};

struct ChildEnd {
  int code = 0;         // 128 + n for signal n
  int stop_signal = 0;  // that we got meanwhile and passed on; 0: none
};

// Runs it to its end. It leads a process group of its own: Ctrl-C reaches it
// once, through us, as SIGTERM; a second one does too, which ends it at once.
// It gets SIGTERM when this process dies. `signals` must hold SIGCHLD and
// those that stop.
ChildEnd run_child(const ChildOptions& options, SignalQueue& signals);

// The last lines of a text file, at most `count`.
std::vector<std::string> last_lines(const std::filesystem::path& file,
                                    std::size_t count);

}  // namespace sheaf::cli
