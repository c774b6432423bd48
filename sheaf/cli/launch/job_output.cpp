#include "sheaf/cli/launch/job_output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

JobOutput::JobOutput(std::string_view token, ReportHandler on_report)
    : on_report_(std::move(on_report)),
      output_lines_(
          [](std::string_view line) { write_all(STDOUT_FILENO, line); }),
      error_lines_([this](std::string_view line) { pass_error(line); }),
      parser_(
          token,
          [this](std::string_view bytes) {
            if (!muted_.error) pass_error(bytes);
          },
          [this](const Frame& frame) { take_frame(frame); }) {}

void JobOutput::feed_output(std::string_view bytes) {
  if (!muted_.output) write_all(STDOUT_FILENO, bytes);
}

void JobOutput::feed_error(std::string_view bytes) { parser_.feed(bytes); }

void JobOutput::finish() {
  parser_.finish();
  output_lines_.finish_all();
  error_lines_.finish_all();
}

void JobOutput::pass_error(std::string_view bytes) {
  if (bytes.empty()) return;
  is_at_line_start_ = bytes.back() == '\n';
  write_all(STDERR_FILENO, bytes);
}

void JobOutput::say(std::string_view line) {
  pass_error(
      fmt::format("{}sheaf run: {}\n", is_at_line_start_ ? "" : "\n", line));
}

void JobOutput::take_frame(const Frame& frame) {
  if (frame.kind == FrameKind::kOutput) {
    output_lines_.feed(frame.rank, frame.payload);
  } else if (frame.kind == FrameKind::kError) {
    error_lines_.feed(frame.rank, frame.payload);
  } else {
    output_lines_.finish(frame.rank);
    error_lines_.finish(frame.rank);
    on_report_(parse_report(frame.rank, frame.payload));
  }
}

}  // namespace sheaf::cli
