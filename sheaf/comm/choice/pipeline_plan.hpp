#pragma once
// Configuration and timing of a pipeline (pipeline.hpp), as needed by the
// choice of an algorithm, the tuner and reports.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sheaf/topo/dims.hpp"

namespace sheaf::comm {

enum class Flow { kAllReduce, kReduce, kBroadcast };

// The algorithm of one tier.
enum class TierAlgorithm { kRing, kHalving, kTree };

struct PipelinePlan {
  bool is_flat = false;           // without shared memory: a host is one rank
  int lanes = 1;                  // ranks that share a host's network traffic
  std::size_t segment_bytes = 0;  // bytes per round of the pipeline
  std::vector<int> outer_dims;    // tiers over the hosts; product = hosts
  std::vector<TierAlgorithm> tier_algorithms;
};

// The time in which steps of one outer tier of the plan were in progress.
struct TierTime {
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t busy_ns = 0;
};

struct PipelineTimes {
  std::int64_t local_ns = 0;    // this rank's work in shared memory
  std::int64_t network_ns = 0;  // time with messages between hosts in transit
  std::array<TierTime, topo::kMaxDims> tiers;
};

}  // namespace sheaf::comm
