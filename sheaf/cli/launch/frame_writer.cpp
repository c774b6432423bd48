#include "sheaf/cli/launch/frame_writer.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

// Generous, because the user may read the output through a pager.
constexpr std::chrono::minutes kDrainLimit{1};

bool is_empty(int fd) {
  int waiting = 0;
  return ::ioctl(fd, FIONREAD, &waiting) != 0 || waiting == 0;
}

}  // namespace

FrameWriter::FrameWriter(std::string token, int rank)
    : token_(std::move(token)), rank_(rank) {}

bool FrameWriter::is_drained() const { return is_empty(STDERR_FILENO); }

void FrameWriter::send(FrameKind kind, std::string payload) const {
  const Frame frame{kind, rank_, std::move(payload)};
  write_all(STDERR_FILENO, encode_frame(token_, frame));
}

void FrameWriter::send_last(FrameKind kind, std::string payload) const {
  const auto limit = Clock::now() + kDrainLimit;
  const pid_t parent = ::getppid();
  const auto is_taken = [] {
    return is_empty(STDOUT_FILENO) && is_empty(STDERR_FILENO);
  };
  while (!is_taken() && ::getppid() == parent && Clock::now() < limit)
    std::this_thread::sleep_for(kDrainStep);
  send(kind, std::move(payload));
}

}  // namespace sheaf::cli
