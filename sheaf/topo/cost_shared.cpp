// Cost of collectives in shared memory; see the table in cost.hpp.

#include <algorithm>
#include <bit>

#include "sheaf/topo/cost.hpp"

namespace sheaf::topo {
namespace {

struct Work {
  double added;    // bytes that one rank adds
  double copied;   // bytes that one rank copies
  double traffic;  // bytes moved by all ranks together
};

Work arena_work(Collective collective, double ranks, double bytes) {
  const double block = bytes / ranks;
  switch (collective) {
    case Collective::kBarrier:
      return {0, 0, 0};
    case Collective::kAllReduce:
      return {bytes, bytes, 2 * ranks * bytes};
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return {bytes, block, ranks * bytes + bytes};
    case Collective::kBroadcast:
      return {0, bytes, 2 * (ranks - 1) * bytes};
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return {0, bytes - block, 2 * (ranks - 1) * bytes};
    case Collective::kGather:
    case Collective::kScatter:
      return {0, block, 2 * (bytes - block)};
  }
  return {0, 0, 0};
}

Work staging_work(Collective collective, double ranks, double bytes) {
  switch (collective) {
    case Collective::kBarrier:
      return {0, 0, 0};
    case Collective::kAllReduce:
      return {0, 2 * bytes, 3 * ranks * bytes};
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return {0, bytes, 2 * ranks * bytes};
    case Collective::kBroadcast:
    case Collective::kScatter:
      return {0, bytes, 2 * bytes};
    case Collective::kGather:
    case Collective::kAllGather:
      return {0, bytes / ranks, 2 * bytes};
  }
  return {0, 0, 0};
}

}  // namespace

double shared_us(Collective collective, const Machine& machine, int ranks,
                 double bytes, bool is_in_arena) {
  if (ranks <= 1) return 0;
  Work work = arena_work(collective, ranks, bytes);
  if (!is_in_arena) {
    const Work staging = staging_work(collective, ranks, bytes);
    work.copied += staging.copied;
    work.traffic += staging.traffic;
  }
  const int rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
  const int barriers = collective == Collective::kBarrier ? 1 : 2;
  const double rank_us = work.added / (1e3 * machine.reduce_gbs) +
                         work.copied / (1e3 * machine.shm.bandwidth_gbs);
  const double host_us = work.traffic / (1e3 * machine.shm_memory_gbs);
  return barriers * rounds * machine.shm.latency_us +
         std::max(rank_us, host_us);
}

}  // namespace sheaf::topo
