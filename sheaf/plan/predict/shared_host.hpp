#pragma once
// Effects of workers that compute on the cores of one host: time slices of
// cores, shared caches and memory bandwidth.

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

// Sets the slowdown and memory factor of each kind from the machine's hosts and
// contention, and whether the exchange uses cores that compute. Kinds on a GPU
// are unchanged; without hosts in the machine, all are.
void share_host(Cluster& cluster);

}  // namespace sheaf::plan
