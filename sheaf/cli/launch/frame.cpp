#include "sheaf/cli/launch/frame.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <thread>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

// Layout of a frame: kMark token kind ' ' rank ' ' length kMark payload kMark.
namespace sheaf::cli {
namespace {

constexpr char kMark = '\x1e';
constexpr std::size_t kMaxHeaderBytes = 64;

struct Header {
  char kind = 0;
  int rank = 0;
  std::size_t length = 0;
};

bool parse_header(const std::string& text, Header& header) {
  int used = 0;
  const int fields = std::sscanf(text.c_str(), "%c %d %zu%n", &header.kind,
                                 &header.rank, &header.length, &used);
  const bool is_kind =
      header.kind == 'x' || header.kind == 'o' || header.kind == 'e';
  return fields == 3 && static_cast<std::size_t>(used) == text.size() &&
         is_kind && header.length <= kMaxPayloadBytes;
}

// Generous, because the user may read the output through a pager.
constexpr std::chrono::minutes kDrainLimit{1};

bool is_empty(int fd) {
  int waiting = 0;
  return ::ioctl(fd, FIONREAD, &waiting) != 0 || waiting == 0;
}

}  // namespace

std::string new_token() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

std::string encode_frame(std::string_view token, const Frame& frame) {
  SHEAF_ASSERT(frame.payload.size() <= kMaxPayloadBytes, "payload of ",
               frame.payload.size(), " bytes");
  return fmt::format("{}{}{} {} {}{}{}{}", kMark, token,
                     static_cast<char>(frame.kind), frame.rank,
                     frame.payload.size(), kMark, frame.payload, kMark);
}

FrameParser::FrameParser(std::string_view token, PlainHandler on_plain,
                         FrameHandler on_frame)
    : start_(kMark + std::string(token)),
      on_plain_(std::move(on_plain)),
      on_frame_(std::move(on_frame)) {}

void FrameParser::feed(std::string_view bytes) {
  held_ += bytes;
  while (!held_.empty() && take_one()) {
  }
}

void FrameParser::finish() { emit_plain(held_.size()); }

void FrameParser::emit_plain(std::size_t count) {
  if (count > 0) on_plain_(std::string_view(held_).substr(0, count));
  held_.erase(0, count);
}

// Consumes the plain bytes up to the next mark, a whole frame, or a mark that
// does not begin a frame. Returns false if it needs more bytes.
bool FrameParser::take_one() {
  const std::size_t mark = held_.find(kMark);
  if (mark != 0) {
    emit_plain(mark == std::string::npos ? held_.size() : mark);
    return true;
  }
  const std::size_t common = std::min(held_.size(), start_.size());
  if (held_.compare(0, common, start_, 0, common) != 0) {
    emit_plain(1);
    return true;
  }
  return common == start_.size() && take_frame();
}

bool FrameParser::take_frame() {
  const std::size_t end = held_.find(kMark, start_.size());
  if (end == std::string::npos && held_.size() < kMaxHeaderBytes) return false;
  Header header;
  if (end == std::string::npos ||
      !parse_header(held_.substr(start_.size(), end - start_.size()), header)) {
    emit_plain(1);
    return true;
  }
  const std::size_t total = end + 1 + header.length + 1;
  if (held_.size() < total) return false;
  if (held_[total - 1] != kMark) {  // interleaved with another rank's bytes
    emit_plain(1);
    return true;
  }
  const Frame frame{static_cast<FrameKind>(header.kind), header.rank,
                    held_.substr(end + 1, header.length)};
  held_.erase(0, total);
  on_frame_(frame);
  return true;
}

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
