#pragma once
// How a pipeline (pipeline.hpp) is to do its work, and how long it took: what
// the choice of an algorithm, the tuner and reports have to know of it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sheaf/topo/dims.hpp"

namespace sheaf::comm {

enum class Flow { kAllReduce, kReduce, kBroadcast };

// The algorithm of one of several tiers.
enum class TierAlgorithm { kRing, kHalving, kTree };

struct PipelinePlan {
  bool is_flat = false;         // every rank on its own: no shared memory
  int lanes = 1;                // shares of a host's traffic
  std::size_t piece_bytes = 0;  // what one round of the pipeline carries
  std::vector<int> outer_dims;  // tiers over the hosts; product = hosts
  std::vector<TierAlgorithm> tier_algorithms;
};

// When steps of one of the plan's outer tiers were under way.
struct TierTime {
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t busy_ns = 0;
};

struct PipelineTimes {
  std::int64_t local_ns = 0;    // own work in shared memory
  std::int64_t network_ns = 0;  // something was under way between hosts
  std::array<TierTime, topo::kMaxDims> tiers;
};

}  // namespace sheaf::comm
