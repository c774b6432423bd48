#pragma once
// The duration of a run and of its current epoch, over all resumptions.

#include "sheaf/base/stopwatch.hpp"

namespace sheaf::train {

// Starts when it is constructed.
class RunClock {
 public:
  // `seconds`: of the run before this process.
  void resume_at(double seconds) { seconds_before_ = seconds; }
  // `seconds`: of the epoch before this process.
  void begin_epoch(double seconds) {
    epoch_watch_ = Stopwatch();
    epoch_seconds_before_ = seconds;
  }

  double seconds() const { return seconds_before_ + run_watch_.ms() / 1000; }
  double epoch_seconds() const {
    return epoch_seconds_before_ + epoch_watch_.ms() / 1000;
  }

 private:
  Stopwatch run_watch_;
  Stopwatch epoch_watch_;
  double seconds_before_ = 0;
  double epoch_seconds_before_ = 0;
};

}  // namespace sheaf::train
