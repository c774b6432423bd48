#pragma once
// Messages from a rank's wrapper to the launcher. They travel in the standard
// error that mpirun collects from all hosts, among the program's own bytes,
// since that way is open wherever ranks can be started at all. A token that
// is drawn for each run tells them from anything else.

#include <functional>
#include <string>
#include <string_view>

namespace sheaf::cli {

enum class FrameKind : char {
  kReport = 'x',  // how the program ended, see report.hpp
  kOutput = 'o',  // bytes of its standard output
  kError = 'e',   // bytes of its standard error
};

struct Frame {
  FrameKind kind = FrameKind::kReport;
  int rank = 0;
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// Open MPI forwards pieces of at most 4096 bytes; a frame must fit one.
inline constexpr std::size_t kMaxFrameBytes = 4096;
inline constexpr std::size_t kMaxPayloadBytes = 3900;

std::string new_token();

// The payload must not be longer than kMaxPayloadBytes.
std::string encode_frame(std::string_view token, const Frame& frame);

// Takes a stream apart again. All bytes that are not part of a frame go to
// `on_plain`, in order and at once: only what may be the beginning of a frame
// is held back.
class FrameParser {
 public:
  using PlainHandler = std::function<void(std::string_view)>;
  using FrameHandler = std::function<void(const Frame&)>;

  FrameParser(std::string_view token, PlainHandler on_plain,
              FrameHandler on_frame);

  void feed(std::string_view bytes);
  void finish();  // the stream has ended: what is held back is plain

 private:
  bool take_one();
  bool take_frame();
  void emit_plain(std::size_t count);

  std::string start_;  // what every frame of this run begins with
  PlainHandler on_plain_;
  FrameHandler on_frame_;
  std::string held_;
};

}  // namespace sheaf::cli
