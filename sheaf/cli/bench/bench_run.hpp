#pragma once
// The measurements. All ranks must call them; rank 0 prints the results.

#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::cli {

struct BenchJob {
  BenchArgs args;
  BenchPlan plan;
};

// Work to do after the world has been destroyed, so that the other ranks do not
// treat an exception of one rank as its death; may be empty.
using Ending = std::function<void()>;

// Measures a collective over all sizes, with the libraries to compare. The
// ending throws InternalError on rank 0 if Sheaf's results were wrong.
Ending run_sweep(const comm::Group& group, const BenchJob& job);

// Measures the CPU time of ranks that wait one second in a barrier.
Ending run_idle(const comm::Group& group, const BenchJob& job);

// Measures a small all-reduce with and without the comparison of fingerprints.
Ending run_guard(const comm::Group& group, const BenchJob& job);

// Measures memory, processor and network, and writes machine.json to
// `args.fit`.
Ending run_fit(const comm::Group& group, const BenchJob& job);

// Initializes the library `name` ("mpi" or "gloo"). All ranks of the world must
// call it.
std::unique_ptr<comm::RivalLibrary> join_rival(const comm::Group& group,
                                               const std::string& name,
                                               const std::string& interface);

topo::Placement placement_of(const comm::Group& group);

}  // namespace sheaf::cli
