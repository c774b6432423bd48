#include "sheaf/cli/launch/job_output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

// Limits the memory for output without line breaks.
constexpr std::size_t kMaxLineBytes = 16 << 20;

}  // namespace

void RankLines::emit(int rank, std::string_view line) {
  on_line_(fmt::format("[{}] {}\n", rank, line));
}

void RankLines::feed(int rank, std::string_view bytes) {
  std::string& partial = partial_[rank];
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos;) {
    partial += bytes.substr(0, end);
    emit(rank, partial);
    partial.clear();
    bytes.remove_prefix(end + 1);
  }
  partial += bytes;
  if (partial.size() >= kMaxLineBytes) finish(rank);
}

void RankLines::finish(int rank) {
  std::string& partial = partial_[rank];
  if (!partial.empty()) emit(rank, partial);
  partial.clear();
}

void RankLines::finish_all() {
  for (const auto& [rank, partial] : partial_) finish(rank);
}

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
