#pragma once
// Where the time of a step goes.

#include <cstdint>

#include "sheaf/base/stopwatch.hpp"

namespace sheaf::train {

// Milliseconds. Exchange is what backward() had to wait for; what ran beside
// the computation costs nothing and is in `exchange_busy`.
struct StepTimes {
  double data = 0;
  double forward = 0;
  double backward = 0;  // without the wait for the exchange
  double exchange = 0;
  double exchange_busy = 0;
  double gradient = 0;  // gradients out of factors
  bool has_factors = false;
  double optimizer = 0;
  double batch = 0;        // all of the step
  std::int64_t bytes = 0;  // sent by this rank

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
