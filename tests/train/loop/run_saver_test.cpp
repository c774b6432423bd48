#include "sheaf/train/loop/run_saver.hpp"

#include <gtest/gtest.h>

namespace sheaf::train {
namespace {

// The time of a clock of the run, which started before `watch`, is not below
// that of `watch`, whenever both are read in this order.
template <class Seconds>
void expect_not_behind(const Stopwatch& watch, Seconds seconds) {
  // Long enough for an error of one in a thousand to exceed the time between
  // the two starts.
  double before = 0;
  while (before < 5) before = watch.ms();
  EXPECT_GE(seconds(), before / 1000);
}

TEST(RunClock, CountsSeconds) {
  RunClock clock;
  clock.begin_epoch(0);
  const Stopwatch watch;
  expect_not_behind(watch, [&] { return clock.seconds(); });
  expect_not_behind(watch, [&] { return clock.epoch_seconds(); });
}

TEST(RunClock, GoesOnWhereTheRunWasStopped) {
  RunClock clock;
  clock.resume_at(1e6);
  clock.begin_epoch(1e3);
  EXPECT_GE(clock.seconds(), 1e6);
  EXPECT_GE(clock.epoch_seconds(), 1e3);
  EXPECT_LT(clock.epoch_seconds(), clock.seconds());
  clock.begin_epoch(0);
  EXPECT_LT(clock.epoch_seconds(), 1e3);
}

}  // namespace
}  // namespace sheaf::train
