#pragma once
// Selects the algorithm of a call: forced, by mode, or by predicted time.

#include <string>
#include <vector>

#include "sheaf/comm/choice/pipeline_plan.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/options.hpp"

namespace sheaf::comm {

enum class Route {
  kSmall,     // in the arrival slot
  kPipeline,  // collect, exchange, deliver; shared memory, tiers, or flat
  kOrdered,   // ranks added in order 0, 1, 2 .. across hosts: see ordered.hpp
  kMpi,       // MPI's reduce_scatter and allgatherv: mode m
};

struct Choice {
  Route route = Route::kPipeline;
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

}  // namespace sheaf::comm
