#pragma once
// What comes out of mpirun's pipes: the programs' bytes, which go on to our
// own standard output and error, and the wrappers' reports.

#include <functional>
#include <string_view>

#include "sheaf/cli/frame.hpp"
#include "sheaf/cli/rank_lines.hpp"
#include "sheaf/cli/report.hpp"

namespace sheaf::cli {

class JobOutput {
 public:
  using ReportHandler = std::function<void(const RankReport&)>;

  JobOutput(std::string_view token, ReportHandler on_report);

  void feed_output(std::string_view bytes);
  void feed_error(std::string_view bytes);
  void finish();

  // From now on bytes outside frames are not passed on: all ranks have ended,
  // and what mpirun says about it is said better by us.
  void mute() { is_muted_ = true; }

  // A whole line of our own on standard error.
  void say(std::string_view line);

 private:
  void take_frame(const Frame& frame);
  void pass_error(std::string_view bytes);

  ReportHandler on_report_;
  RankLines output_lines_;
  RankLines error_lines_;
  FrameParser parser_;
  bool is_muted_ = false;
  bool is_at_line_start_ = true;
};

}  // namespace sheaf::cli
