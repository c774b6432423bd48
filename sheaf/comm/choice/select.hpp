#pragma once
// Selects the algorithm of a call: forced, by mode, or by predicted time.
// Describes a choice as text and tier by tier.

#include <string>
#include <vector>

#include "sheaf/comm/choice/pipeline_plan.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::comm {

enum class DataPath {
  kSmall,     // in the arrival slot
  kPipeline,  // collect, exchange, deliver; shared memory, tiers, or flat
  kOrdered,   // ranks added in order 0, 1, 2 .. across hosts: see ordered.hpp
  kMpi,       // MPI's reduce_scatter and allgatherv: mode m
};

struct Choice {
  DataPath path = DataPath::kPipeline;
  PipelinePlan plan;
};

// Whether the result must depend only on the ranks' inputs, bit for bit, as
// requested by the call or by the world's options. Overrides the mode and a
// forced algorithm.
bool is_reproducible(GroupCore& group, const CollectiveOptions& options);

// Every rank of the group makes the same choice. Throws UsageError if a forced
// algorithm does not support this group.
// In mode `p` this is a step of the exploration: call it exactly once per
// all-reduce, from within its job.
Choice select_all_reduce(GroupCore& group, DType dtype, std::size_t bytes,
                         const CollectiveOptions& options);
// Same, for reduce and broadcast.
Choice select_rooted(GroupCore& group, Flow flow, std::size_t bytes,
                     const CollectiveOptions& options);

std::string_view name_of(TierAlgorithm algorithm) noexcept;

// The text of a choice, for reports, and as the key under which the tuner
// stores it: "small", "ordered", "mpi", "shared segment=256K" on one host,
// "lanes=2 tiers=ring:4,tree:2 segment=512K" on several, and
// "flat tiers=ring:8 segment=1M" without shared memory.
std::string text_of(const Choice& choice, const HostMap& host_map);

inline constexpr int kHostTier = -1;

struct ChosenTier {
  std::string name;       // "host", "tier 1" ...
  int outer = kHostTier;  // index in the plan's outer_dims
  int size = 1;           // number of participants
  std::string algorithm;  // "shared", "ring" ...
  // Lower bound for any algorithm in this tier, per byte of the buffer.
  double bound_us_per_byte = 0;
};

// The tiers with more than one participant, from the innermost outward.
std::vector<ChosenTier> tiers_of(const Choice& choice, const HostMap& host_map,
                                 const topo::Machine& machine);

// Lower bound for any all-reduce of the group, per byte of the buffer.
double bound_us_per_byte(const HostMap& host_map, const topo::Machine& machine);

}  // namespace sheaf::comm
