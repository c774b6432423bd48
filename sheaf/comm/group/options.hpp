#pragma once
// Options of one collective call.

#include <chrono>
#include <string_view>

#include "sheaf/comm/kernels/reduce_op.hpp"
#include "sheaf/topo/algorithm.hpp"

namespace sheaf::comm {

using topo::Algorithm;

struct CollectiveOptions {
  ReduceOp op = ReduceOp::kSum;
  int root = 0;                            // rank in the group
  Algorithm algorithm = Algorithm::kAuto;  // kAuto: chosen by select.hpp
  bool reproducible = false;               // see docs/explanation/algorithms.md
  bool async = false;                      // run on the group's own thread
  // Maximum time to wait for the other ranks; zero: the default timeout.
  std::chrono::milliseconds timeout{0};
  // Part of the fingerprint, so all ranks must pass the same name. Not stored.
  std::string_view name = {};
};

}  // namespace sheaf::comm
