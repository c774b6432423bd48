#pragma once
// Lower bounds on the time of a collective on a given machine.

#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::cli {

// Lower bound in microseconds for a call on `bytes` (the size column): the
// longer of two times. One reads every input and writes every output once in
// the memory of the host with the most ranks; the other moves the data that
// must leave or enter a host through its network. 0 for a barrier and for one
// rank. docs/reference/bench.md has the formulas.
double bound_us(comm::Operation operation, const topo::Machine& machine,
                const topo::Placement& placement, double bytes);

}  // namespace sheaf::cli
