#pragma once
// How one call differs from the default.

#include <chrono>
#include <string_view>

#include "sheaf/comm/kernels/reduce_op.hpp"
#include "sheaf/topo/cost.hpp"

namespace sheaf::comm {

using topo::Algorithm;

struct CollectiveOptions {
  ReduceOp op = ReduceOp::kSum;
  int root = 0;                            // rank in the group
  Algorithm algorithm = Algorithm::kAuto;  // kAuto asks select.hpp
  bool reproducible = false;               // see docs/algorithms.md, "Order"
  bool async = false;                      // run on the group's own thread
  // How long to wait for the other ranks; zero takes the group's own.
  std::chrono::milliseconds timeout{0};
  // Part of the fingerprint: ranks must give the same one. Not kept.
  std::string_view name = {};
};

}  // namespace sheaf::comm
