#include <algorithm>

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

// Bytes that pass through the memory of a host with p of the P ranks, divided
// by the size S.
double memory_share(Operation operation, double p, double P) {
  switch (operation) {
    case Operation::kBroadcast:
      return p;
    case Operation::kReduce:
    case Operation::kReduceScatter:
      return p + (operation == Operation::kReduce ? 1 : p / P);
    case Operation::kAllGather:
      return p / P + p * (P - 1) / P;
    case Operation::kAllToAll:
      return 2 * p * (P - 1) / P;
    case Operation::kGather:
    case Operation::kScatter:
      return 2 * (P - 1) / P;
    default:  // sendrecv, all-reduce
      return 2 * p;
  }
}

// Bytes that pass through the busier direction of a host's network, divided by
// the size S.
double network_share(Operation operation, double p, double P) {
  switch (operation) {
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kSend:
      return 1;
    case Operation::kAllToAll:
      return p * (P - p) / P;
    default:  // gather, scatter, all-gather, reduce-scatter
      return (P - p) / P;
  }
}

}  // namespace

double bound_us(Operation operation, const topo::Machine& machine,
                const topo::Placement& placement, double bytes) {
  if (operation == Operation::kBarrier || placement.ranks < 2) return 0;
  if (operation == Operation::kAllReduce)
    return topo::all_reduce_bound_us(machine, placement, bytes);
  const double p = placement.ranks_per_host;
  const double P = placement.ranks;
  const double memory_us =
      memory_share(operation, p, P) * bytes / (1000 * machine.shm_memory_gbs);
  if (placement.hosts < 2) return memory_us;
  return std::max(memory_us, network_share(operation, p, P) * bytes /
                                 (1000 * machine.network.bandwidth_gbs));
}

}  // namespace sheaf::cli
