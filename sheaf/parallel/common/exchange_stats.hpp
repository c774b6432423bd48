#pragma once
// What the exchange of gradients has cost.

#include <cstdint>

namespace sheaf::parallel {

// Since the last reset_stats().
struct ExchangeStats {
  double exchange_ms = 0;  // buckets under way, overlapped or not
  double wait_ms = 0;      // of that, what backward() waited for at its end
  double gradient_ms = 0;  // computing gradients from factors, after that
  std::int64_t bytes = 0;  // given away by this rank
  std::int64_t passes = 0;
  std::int64_t buckets = 0;
};

}  // namespace sheaf::parallel
