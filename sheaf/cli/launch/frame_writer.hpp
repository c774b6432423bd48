#pragma once
// Writes frames from the wrapper to the launcher.

#include <chrono>
#include <string>

#include "sheaf/cli/launch/frame.hpp"

namespace sheaf::cli {

// Writes frames to standard error. A frame written while the pipe is empty is
// forwarded in one piece, so bytes of other ranks cannot split it.
class FrameWriter {
 public:
  FrameWriter(std::string token, int rank);

  // Whether mpirun's daemon has read everything written to standard error.
  bool is_drained() const;
  static constexpr std::chrono::microseconds kDrainStep{200};

  void send(FrameKind kind, std::string payload) const;

  // Waits, at most a minute, until the program's output and errors have been
  // read, then sends. So the launcher receives them before the frame.
  void send_last(FrameKind kind, std::string payload) const;

 private:
  std::string token_;
  int rank_;
};

}  // namespace sheaf::cli
