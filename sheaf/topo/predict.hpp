#pragma once
// Cost of a collective on a described machine, and the cheapest algorithm.

#include <optional>

#include "sheaf/topo/cost.hpp"

namespace sheaf::topo {

// Where the ranks of a group are. Hosts may have unlike numbers of ranks.
struct Placement {
  int ranks = 1;
  int hosts = 1;
  int ranks_per_host = 1;    // the largest number on one host
  std::optional<Dims> dims;  // declared tiers; else {ranks_per_host, hosts}
};

// The first dimension is the ranks per host.
Placement placement_of(const Dims& dims);

inline constexpr double kSegmentBytes = 1 << 20;

// The cost in microseconds; infinity where the algorithm does not do that
// collective or cannot serve the placement. kAuto costs what the cheapest
// does. `bytes` as S in cost.hpp.
double predict_us(Collective collective, Algorithm algorithm,
                  const Machine& machine, const Placement& placement,
                  double bytes);

// The algorithm with the smallest predict_us; never kAuto. Of equals the
// first in the order of the enum wins, so that all ranks choose the same.
Algorithm cheapest(Collective collective, const Machine& machine,
                   const Placement& placement, double bytes);

// What no all-reduce can beat on this machine: the larger of the hosts'
// egress, 2(H-1)/H S/G for H hosts, and of the memory of the fullest host.
double all_reduce_bound_us(const Machine& machine, const Placement& placement,
                           double bytes);

}  // namespace sheaf::topo
