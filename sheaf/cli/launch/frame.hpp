#pragma once
// Messages from a rank's wrapper to the launcher. They are embedded in the
// standard error that mpirun collects from all hosts, because this channel
// exists wherever ranks can be started. A random token per run distinguishes
// them from the program's own bytes.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace sheaf::cli {

enum class FrameKind : char {
  kReport = 'x',  // how the program ended, see rank_report.hpp
  kOutput = 'o',  // bytes of the program's standard output
  kError = 'e',   // bytes of the program's standard error
};

struct Frame {
  FrameKind kind = FrameKind::kReport;
  int rank = 0;
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// Open MPI forwards pieces of at most 4096 bytes; a frame must fit in one.
inline constexpr std::size_t kMaxFrameBytes = 4096;
inline constexpr std::size_t kMaxPayloadBytes = 3900;

std::string new_token();

// The payload must not be longer than kMaxPayloadBytes.
std::string encode_frame(std::string_view token, const Frame& frame);

// Splits a stream into frames and plain bytes. Bytes outside frames are passed
// to `on_plain` in order and without delay; only a possible beginning of a
// frame is held back.
class FrameParser {
 public:
  using PlainHandler = std::function<void(std::string_view)>;
  using FrameHandler = std::function<void(const Frame&)>;

  FrameParser(std::string_view token, PlainHandler on_plain,
              FrameHandler on_frame);

  void feed(std::string_view bytes);
  void finish();  // end of the stream: bytes held back are plain

 private:
  bool take_one();
  bool take_frame();
  void emit_plain(std::size_t count);

  std::string start_;  // prefix of every frame of this run
  PlainHandler on_plain_;
  FrameHandler on_frame_;
  std::string held_;
};

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
