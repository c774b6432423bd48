#pragma once
// A line on a terminal that says how far something is.

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
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

// What fits standard error: whether it is a terminal, and how wide.
ProgressOptions progress_on_stderr();

// Not for use by several threads at once. Others who write to the same
// terminal call clear() first; the next update() draws the line again.
class Progress {
 public:
  // `out` must outlive it.
  explicit Progress(std::ostream& out, ProgressOptions options);
  Progress();   // on standard error
  ~Progress();  // clears
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For what begins halfway: the time left is reckoned from here on.
  void start_at(double fraction);
  // `fraction` from 0 to 1. Draws "[####....]  50 %  text  3.0 s left"; the
  // time left assumes that the rest goes as fast as what was done. Where
  // room is short the last words, which two spaces part from others, are left
  // out, and the bar shrinks.
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

}  // namespace sheaf
