#pragma once
// The wrapper's end of the way that frames take to the launcher.

#include <chrono>
#include <string>

#include "sheaf/cli/launch/frame.hpp"

namespace sheaf::cli {

// Writes frames to standard error. A frame that is written when the pipe is
// empty is forwarded in one piece, which the bytes of other ranks cannot tear.
class FrameWriter {
 public:
  FrameWriter(std::string token, int rank);

  // Whether mpirun's daemon has taken all that was written to standard error.
  bool is_drained() const;
  static constexpr std::chrono::microseconds kDrainStep{200};

  void send(FrameKind kind, std::string payload) const;

  // Waits until the program's output and errors are taken, but not for ever,
  // and then sends: the launcher has them before it has the frame.
  void send_last(FrameKind kind, std::string payload) const;

 private:
  std::string token_;
  int rank_;
};

}  // namespace sheaf::cli
