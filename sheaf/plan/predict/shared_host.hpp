#pragma once
// What workers of one host take from each other, where they compute on its
// cores: turns on a core, caches and memory.

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

// Sets the kinds' slowdown and what is bound by memory, out of the machine's
// hosts and contention, and whether an exchange takes cores that compute.
// Kinds on a GPU stay as they are; without hosts in the machine, all do.
void share_host(Cluster& cluster);

}  // namespace sheaf::plan
