#pragma once
// What no implementation can beat on a described machine.

#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::cli {

// Microseconds of the call on `bytes` (the size column): every input read and
// every output written once through the memory of the fullest host, and what
// must leave or enter a host through its network, whichever takes longer. 0
// for a barrier and for one rank. docs/performance.md has the formulas.
double bound_us(comm::Operation operation, const topo::Machine& machine,
                const topo::Placement& placement, double bytes);

}  // namespace sheaf::cli
