#pragma once
// Breakdown of the time of a step.

#include <cstdint>

#include "sheaf/base/stopwatch.hpp"

namespace sheaf::train {

// In milliseconds. `exchange` is the time that backward() waited for the
// exchange; `exchange_busy` also includes the part that overlapped with
// computation.
struct StepTimes {
  double data = 0;
  double forward = 0;
  double backward = 0;  // without waiting for the exchange
  double exchange = 0;
  double exchange_busy = 0;
  double gradient = 0;  // computing gradients from factors
  bool has_factors = false;
  double optimizer = 0;
  double batch = 0;        // the whole step
  std::int64_t bytes = 0;  // bytes sent by this rank

  StepTimes& operator+=(const StepTimes& other) {
    data += other.data;
    forward += other.forward;
    backward += other.backward;
    exchange += other.exchange;
    exchange_busy += other.exchange_busy;
    gradient += other.gradient;
    has_factors = has_factors || other.has_factors;
    optimizer += other.optimizer;
    batch += other.batch;
    bytes += other.bytes;
    return *this;
  }
};

}  // namespace sheaf::train
