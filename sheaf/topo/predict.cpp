// Ranks are numbered host by host. So a ring leaves each host once, and a tree
// crosses hosts through one rank of each, while in halving and in all-to-all
// all ranks of a host share its egress at the same time.
#include "sheaf/topo/predict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sheaf::topo {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Query {
  Collective collective;
  const Machine& machine;
  const Placement& placement;
  double bytes;

  bool is_one_host() const { return placement.hosts <= 1; }
};

// A message within a host costs setting a flag and handling the message. It is
// copied into shared memory and out of it, so four times its bytes are
// transferred by the memory that `ranks` ranks share.
Flat inner_flat(const Machine& machine, int ranks) {
  const Link link{machine.shm.latency_us + machine.message_us,
                  std::min(machine.shm.bandwidth_gbs,
                           machine.shm_memory_gbs / (4.0 * ranks))};
  return {ranks, link, machine.reduce_gbs, machine.message_us};
}

// All ranks use the same kind of link; `sharers` ranks share a host's egress.
Flat flat_of(const Query& query, int sharers) {
  const Placement& placement = query.placement;
  if (query.is_one_host()) return inner_flat(query.machine, placement.ranks);
  const Flat inner = inner_flat(query.machine, placement.ranks_per_host);
  const Link& network = query.machine.network;
  return {placement.ranks,
          {network.latency_us,
           std::min(inner.link.bandwidth_gbs, network.bandwidth_gbs / sharers)},
          query.machine.reduce_gbs,
          query.machine.message_us};
}

double ring_us(const Query& query) {
  const Flat flat = flat_of(query, /*sharers=*/1);
  switch (query.collective) {
    case Collective::kAllReduce:
      return ring_all_reduce_us(flat, query.bytes);
    case Collective::kReduceScatter:
      return ring_reduce_scatter_us(flat, query.bytes);
    case Collective::kAllGather:
      return ring_all_gather_us(flat, query.bytes);
    case Collective::kBroadcast:
      return ring_broadcast_us(flat, query.bytes);
    case Collective::kReduce:
      return ring_reduce_us(flat, query.bytes);
    case Collective::kGather:
    case Collective::kScatter:
      return linear_gather_us(flat, query.bytes);
    case Collective::kAllToAll:
      return pairwise_all_to_all_us(
          flat_of(query, query.placement.ranks_per_host), query.bytes);
    case Collective::kBarrier:
      return kNever;
  }
  return kNever;
}

double halving_us(const Query& query) {
  const Flat flat = flat_of(query, query.placement.ranks_per_host);
  switch (query.collective) {
    case Collective::kAllReduce:
      return halving_all_reduce_us(flat, query.bytes);
    case Collective::kReduceScatter:
      return halving_reduce_scatter_us(flat, query.bytes);
    case Collective::kAllGather:
      return halving_all_gather_us(flat, query.bytes);
    default:
      return kNever;
  }
}

double tree_of(Collective collective, const Flat& flat, double bytes) {
  switch (collective) {
    case Collective::kBarrier:
      return tree_barrier_us(flat);
    case Collective::kBroadcast:
      return tree_broadcast_us(flat, bytes);
    case Collective::kReduce:
      return tree_reduce_us(flat, bytes);
    case Collective::kAllReduce:
      return tree_all_reduce_us(flat, bytes);
    case Collective::kGather:
    case Collective::kScatter:
      return tree_gather_us(flat, bytes);
    default:
      return kNever;
  }
}

// A tree over the hosts and a tree within each host. In a gather, the blocks of
// one host are only a part of the bytes that the root receives.
double tree_us(const Query& query) {
  const Placement& placement = query.placement;
  const Machine& machine = query.machine;
  const bool is_gather = query.collective == Collective::kGather ||
                         query.collective == Collective::kScatter;
  const double inner_bytes =
      is_gather ? query.bytes / placement.hosts : query.bytes;
  const Flat outer{placement.hosts, machine.network, machine.reduce_gbs,
                   machine.message_us};
  const Flat inner = inner_flat(machine, placement.ranks_per_host);
  return tree_of(query.collective, outer, query.bytes) +
         tree_of(query.collective, inner, inner_bytes);
}

Dims tiers_declared(const Placement& placement) {
  if (placement.dims) return *placement.dims;
  return {{placement.ranks_per_host, placement.hosts}};
}

double hierarchical_us(const Query& query) {
  if (query.collective != Collective::kAllReduce) return kNever;
  const auto tiers = tiers_of(query.machine, tiers_declared(query.placement));
  const int segments =
      static_cast<int>(std::max(1.0, std::ceil(query.bytes / kSegmentBytes)));
  return tiers_pipelined_us(tiers, query.bytes, segments,
                            query.machine.reduce_gbs);
}

// Assumes that MPI selects the best of the message-based algorithms.
double mpi_us(const Query& query) {
  return std::min({ring_us(query), halving_us(query), tree_us(query)});
}

}  // namespace

Placement placement_of(const Dims& dims) {
  const int inner = dims.sizes.empty() ? 1 : dims.sizes[0];
  return {dims.product(), dims.product() / inner, inner, dims};
}

double predict_us(Collective collective, Algorithm algorithm,
                  const Machine& machine, const Placement& placement,
                  double bytes) {
  const Query query{collective, machine, placement, bytes};
  if (placement.ranks <= 1) return 0;
  switch (algorithm) {
    case Algorithm::kAuto:
      return predict_us(collective,
                        cheapest(collective, machine, placement, bytes),
                        machine, placement, bytes);
    case Algorithm::kShared:
      if (!query.is_one_host()) return kNever;
      return shared_us(collective, machine, placement.ranks, bytes);
    case Algorithm::kRing:
      return ring_us(query);
    case Algorithm::kHalving:
      return halving_us(query);
    case Algorithm::kTree:
      return tree_us(query);
    case Algorithm::kHierarchical:
      return hierarchical_us(query);
    case Algorithm::kMpi:
      return mpi_us(query);
  }
  return kNever;
}

Algorithm cheapest(Collective collective, const Machine& machine,
                   const Placement& placement, double bytes) {
  Algorithm best = Algorithm::kMpi;
  double best_us = kNever;
  for (int i = 1; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    const double us =
        predict_us(collective, algorithm, machine, placement, bytes);
    if (us >= best_us) continue;
    best = algorithm;
    best_us = us;
  }
  return best;
}

double all_reduce_bound_us(const Machine& machine, const Placement& placement,
                           double bytes) {
  const double network =
      tier_bound_us({{placement.hosts}}, {machine.network}, bytes);
  return std::max(network, shared_bound_us(machine.shm_memory_gbs,
                                           placement.ranks_per_host, bytes));
}

}  // namespace sheaf::topo
