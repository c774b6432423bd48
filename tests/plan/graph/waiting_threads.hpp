#pragma once
// A step whose threads wait for each other.

#include "tests/plan/trace/trace_text.hpp"

namespace sheaf::plan {

// The first thread computes until 200 us and from 710 to 910 us, the second one
// from 210 to 700 us. The step ends after 1000 us.
inline void add_waiting_threads(TraceText& text) {
  text.step(1, 0, 1000);
  text.op("aten::forward", 1, 10, 190);
  text.op("aten::backward", 2, 210, 490);
  text.kernel(2, 300, 7, 310, 10);
  text.op("aten::step", 1, 710, 200);
}

}  // namespace sheaf::plan
