#pragma once
// Splits the output of mpirun into the programs' bytes, which are forwarded to
// our standard output and error, and the wrappers' reports.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "sheaf/cli/launch/frame.hpp"
#include "sheaf/cli/launch/rank_report.hpp"

namespace sheaf::cli {

// Assembles the output of many ranks into whole lines, each prefixed with its
// rank.
class RankLines {
 public:
  using LineHandler = std::function<void(std::string_view)>;

  // `on_line` is called with each complete line, as "[rank] text\n".
  explicit RankLines(LineHandler on_line) : on_line_(std::move(on_line)) {}

  void feed(int rank, std::string_view bytes);
  void finish(int rank);  // emits a last line without a line break
  void finish_all();

 private:
  void emit(int rank, std::string_view line);

  LineHandler on_line_;
  std::map<int, std::string> partial_;
};

class JobOutput {
 public:
  using ReportHandler = std::function<void(const RankReport&)>;

  JobOutput(std::string_view token, ReportHandler on_report);

  void feed_output(std::string_view bytes);
  void feed_error(std::string_view bytes);
  void finish();

  // Stops forwarding bytes outside frames.
  struct Muted {
    bool output = false;
    bool error = false;
  };
  void mute(const Muted& muted) { muted_ = muted; }

  // Prints a message of the launcher as a line on standard error.
  void say(std::string_view line);

 private:
  void take_frame(const Frame& frame);
  void pass_error(std::string_view bytes);

  ReportHandler on_report_;
  RankLines output_lines_;
  RankLines error_lines_;
  FrameParser parser_;
  Muted muted_;
  bool is_at_line_start_ = true;
};

}  // namespace sheaf::cli
