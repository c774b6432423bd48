#pragma once
// A progress bar on one line of a terminal.

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace sheaf {

struct ProgressOptions {
  bool is_terminal = false;  // false: nothing is ever written
  std::size_t columns = 80;  // the line is cut to fit
  // The line is drawn at most this often.
  std::chrono::milliseconds interval{100};
  std::function<std::chrono::steady_clock::time_point()> now =
      std::chrono::steady_clock::now;
};

// Options for standard error: whether it is a terminal, and its width.
ProgressOptions progress_on_stderr();

// Not thread-safe. Code that writes to the same terminal must call clear()
// first; the next update() redraws the line.
class Progress {
 public:
  // `out` must outlive this object.
  explicit Progress(std::ostream& out, ProgressOptions options);
  Progress();   // on standard error
  ~Progress();  // clears
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the fraction that was already done before this object began to measure
  // (a resumed run), and restarts the clock for the time left.
  void start_at(double fraction);
  // Draws "[####....]  50 %  text  3.0 s left" for `fraction` from 0 to 1. The
  // time left assumes a constant speed. If the terminal is too narrow, fields
  // (separated by two spaces) are dropped from the end and the bar shrinks.
  void update(double fraction, std::string_view text);
  void clear();

 private:
  std::string line(double fraction, std::string_view text) const;

  std::ostream& out_;
  const ProgressOptions options_;
  std::chrono::steady_clock::time_point start_;
  double start_fraction_ = 0;
  std::chrono::steady_clock::time_point drawn_at_;
  bool is_drawn_ = false;
};

// The stream for the progress line of ranks whose output a launcher forwards,
// and its width: "out:80" if standard output is a terminal, "err:80" if only
// standard error is, else empty. Standard output is preferred, so that rows and
// the progress line stay in order.
std::string progress_place();

class RankProgress {
 public:
  explicit RankProgress(const std::string& place);  // from progress_place()

  void update(double fraction, std::string_view text);
  void clear();
  // Null if the place is empty.
  Progress* get() { return progress_ ? &*progress_ : nullptr; }

 private:
  std::optional<Progress> progress_;
};

}  // namespace sheaf
