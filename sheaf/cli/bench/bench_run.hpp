#pragma once
// The measurements, as every rank runs them. Rank 0 prints.

#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::cli {

struct BenchJob {
  BenchArgs args;
  BenchPlan plan;
};

// What is left to do after the world has ended, so that a failure of one rank
// does not look like its death to the others; may be empty.
using Ending = std::function<void()>;

// A collective over all sizes, with those it is compared with. The ending
// throws InternalError on rank 0 when results of ours were wrong.
Ending run_sweep(const comm::Group& group, const BenchJob& job);

// One rank comes a second late to a barrier: the processor time of the others.
Ending run_idle(const comm::Group& group, const BenchJob& job);

// A small all-reduce with and without the comparison of fingerprints.
Ending run_guard(const comm::Group& group, const BenchJob& job);

// Measures memory, processor and network, and writes the description of the
// machine to `args.fit`.
Ending run_fit(const comm::Group& group, const BenchJob& job);

// The library called `name`, joined by all ranks of the world.
std::unique_ptr<comm::BaselineLibrary> join_baseline(
    const comm::Group& group, const std::string& name,
    const std::string& interface);

topo::Placement placement_of(const comm::Group& group);

}  // namespace sheaf::cli
