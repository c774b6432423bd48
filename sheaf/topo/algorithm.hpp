#pragma once
// Names of collectives and of algorithms.

#include <cstdint>
#include <string_view>

namespace sheaf::topo {

// Algorithms for collectives; see docs/explanation/costs.md for their costs.
enum class Algorithm : std::uint8_t {
  kAuto,          // the fastest by predicted time
  kShared,        // shared memory; all ranks on one host
  kRing,          // neighbors on a ring
  kHalving,       // recursive halving and doubling
  kTree,          // binomial tree
  kHierarchical,  // tier by tier over declared dimensions
  kMpi,           // functions of the MPI library
};
inline constexpr int kAlgorithmCount = 7;

// "auto", "shm", "ring", "halving", "tree", "hierarchical", "mpi".
std::string_view name_of(Algorithm algorithm) noexcept;
Algorithm parse_algorithm(std::string_view name);  // UsageError lists them

enum class Collective : std::uint8_t {
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kAllGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
};
inline constexpr int kCollectiveCount = 9;

// "barrier", "broadcast", "reduce", "all_reduce", "gather", "all_gather",
// "scatter", "reduce_scatter", "all_to_all".
std::string_view name_of(Collective collective) noexcept;
// Underscores may be omitted, as in "allreduce". UsageError lists the names.
Collective parse_collective(std::string_view name);

}  // namespace sheaf::topo
