#pragma once
// Time and traffic of the gradient exchange.

#include <cstdint>

namespace sheaf::parallel {

// Totals since the last reset_stats().
struct ExchangeStats {
  double exchange_ms = 0;  // time in exchanges, overlapped or not
  double wait_ms = 0;      // the part that backward() waited for at its end
  // Computing gradients from factors, after the exchange.
  double gradient_ms = 0;
  std::int64_t bytes = 0;  // sent by this rank
  std::int64_t passes = 0;
  std::int64_t buckets = 0;
};

}  // namespace sheaf::parallel
