// Cost of the hierarchical all-reduce; see cost.hpp for the formulas.

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/topo/cost.hpp"

namespace sheaf::topo {
namespace {

// T_i of every tier.
std::vector<double> tier_times_us(const std::vector<Tier>& tiers, double bytes,
                                  double reduce_gbs) {
  std::vector<double> times;
  double ranks_below = 1;
  for (const Tier& tier : tiers) {
    const int others = tier.size - 1;
    const double share = bytes * others / tier.size;
    times.push_back(2.0 * others * tier.link.latency_us +
                    2 * share / (1e3 * tier.link.bandwidth_gbs) +
                    share / ranks_below / (1e3 * reduce_gbs));
    ranks_below *= tier.size;
  }
  return times;
}

double sum(const std::vector<double>& times) {
  double total = 0;
  for (const double time : times) total += time;
  return total;
}

double busiest_fabric_us(const std::vector<Tier>& tiers,
                         const std::vector<double>& times) {
  std::map<int, double> busy;
  for (std::size_t i = 0; i < tiers.size(); ++i)
    busy[tiers[i].fabric] += times[i];
  double largest = 0;
  for (const auto& [fabric, time] : busy) largest = std::max(largest, time);
  return largest;
}

// The memory bandwidth of a host limits all its ranks together. The bound
// 2 p S/M is the time of a ring of p ranks with an egress of M (p-1)/p^2.
Link inner_link(const Machine& machine, int ranks) {
  Link link = machine.shm;
  if (ranks > 1)
    link.bandwidth_gbs =
        std::min(link.bandwidth_gbs,
                 machine.shm_memory_gbs * (ranks - 1) / (1.0 * ranks * ranks));
  return link;
}

}  // namespace

std::vector<Tier> tiers_of(const Machine& machine, const Dims& dims) {
  std::vector<Tier> tiers;
  double hosts_per_group = 1;
  for (std::size_t i = 0; i < dims.sizes.size(); ++i) {
    if (i == 0) {
      tiers.push_back(
          {dims.sizes[0], inner_link(machine, dims.sizes[0]), /*fabric=*/0});
      continue;
    }
    Link egress = machine.network;
    egress.bandwidth_gbs *= hosts_per_group;
    tiers.push_back({dims.sizes[i], egress, /*fabric=*/1});
    hosts_per_group *= dims.sizes[i];
  }
  return tiers;
}

double tiers_sum_us(const std::vector<Tier>& tiers, double bytes,
                    double reduce_gbs) {
  return sum(tier_times_us(tiers, bytes, reduce_gbs));
}

double tiers_pipelined_us(const std::vector<Tier>& tiers, double bytes,
                          int segments, double reduce_gbs) {
  SHEAF_CHECK(segments >= 1, "a pipeline of ", segments,
              " segments; there must be at least 1");
  const auto times = tier_times_us(tiers, bytes / segments, reduce_gbs);
  return sum(times) + (segments - 1) * busiest_fabric_us(tiers, times);
}

}  // namespace sheaf::topo
