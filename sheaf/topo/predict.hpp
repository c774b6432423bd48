#pragma once
// Predicted cost of a collective on a machine, and the cheapest algorithm.

#include <optional>

#include "sheaf/topo/cost.hpp"

namespace sheaf::topo {

// Placement of the ranks of a group. Hosts may have different numbers of ranks.
struct Placement {
  int ranks = 1;
  int hosts = 1;
  int ranks_per_host = 1;    // the largest number on one host
  std::optional<Dims> dims;  // declared tiers; default {ranks_per_host, hosts}
};

// The first dimension is the number of ranks per host.
Placement placement_of(const Dims& dims);

inline constexpr double kSegmentBytes = 1 << 20;

// The cost in microseconds; infinity if the algorithm does not support the
// collective or the placement. kAuto gives the cost of the cheapest algorithm.
// `bytes` is S of cost.hpp.
double predict_us(Collective collective, Algorithm algorithm,
                  const Machine& machine, const Placement& placement,
                  double bytes);

// The algorithm with the smallest predict_us(); never kAuto. Ties are resolved
// in enum order, so that all ranks choose the same algorithm.
Algorithm cheapest(Collective collective, const Machine& machine,
                   const Placement& placement, double bytes);

// Lower bound for any all-reduce on this machine: the maximum of the bounds by
// the hosts' egress, 2(H-1)/H S/G for H hosts, and by the memory of the host
// with the most ranks.
double all_reduce_bound_us(const Machine& machine, const Placement& placement,
                           double bytes);

}  // namespace sheaf::topo
