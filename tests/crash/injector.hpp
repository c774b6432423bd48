#pragma once
// Runs a function in a child process and stops it before every system call that
// concerns a folder: to observe the call, to let it fail, or to kill the
// process, in which case the kernel has executed exactly the calls before it.
//
// A seccomp filter reports the calls that have a path or a file descriptor to
// this process, which traces the child and all of its threads and children
// (ptrace). All other calls run at full speed.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sheaf::crash {

struct Call {
  std::string name;      // "rename"
  std::string path;      // first path, or that of the file descriptor
  std::string other;     // second path of a rename; target of a symbolic link
  bool changes = false;  // names or contents, or waits until they are on disk
  int process = 0;
};
std::string describe(const Call& call);

struct Injection {
  // Kills the process that makes call number `kill_at`, counted from 0 among
  // those that concern the folder. -1: none.
  int kill_at = -1;
  // Called before a call; returns the error that it fails with; 0: none.
  std::function<int(const Call&, int index)> fail = nullptr;
  // Called before call `kill_at`, while the process is stopped.
  std::function<void(const Call&)> before_kill = nullptr;
  bool counts_reads = true;  // false: only calls with `changes` are counted
};

struct Outcome {
  int code = 0;  // exit code, or 128 + n for signal n
  bool has_killed = false;
  std::string output;       // standard output and error
  std::vector<Call> calls;  // counted ones, up to the killed one
};

// Whether this process may trace its children.
bool can_trace();

// Calls `body` in a child process, which exits with the result. Throws
// std::runtime_error if it takes longer than two minutes.
Outcome run_traced(const std::filesystem::path& folder,
                   const Injection& injection,
                   const std::function<int()>& body);
// Same, not traced.
Outcome run_plainly(const std::function<int()>& body);

}  // namespace sheaf::crash
