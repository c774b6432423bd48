#include "sheaf/topo/cost.hpp"

#include <algorithm>
#include <bit>

#include "sheaf/base/error.hpp"

namespace sheaf::topo {
namespace {

int rounds(int ranks) noexcept {
  return ranks <= 1 ? 0 : std::bit_width(static_cast<unsigned>(ranks - 1));
}

// One GB/s is 1000 bytes per microsecond.
double time_us(double bytes, double gbs) noexcept {
  return bytes / (1e3 * gbs);
}

double wire_us(const Flat& flat, double bytes) noexcept {
  return time_us(bytes, flat.link.bandwidth_gbs);
}

double add_us(const Flat& flat, double bytes) noexcept {
  return time_us(bytes, flat.reduce_gbs);
}

double others_share(int ranks, double bytes) noexcept {
  return ranks <= 1 ? 0 : bytes * (ranks - 1) / ranks;
}

Flat folded(const Flat& flat) noexcept {
  Flat power = flat;
  power.ranks = static_cast<int>(
      std::bit_floor(static_cast<unsigned>(std::max(flat.ranks, 1))));
  return power;
}

}  // namespace

double ring_reduce_scatter_us(const Flat& flat, double bytes) {
  return ring_all_gather_us(flat, bytes) +
         add_us(flat, others_share(flat.ranks, bytes));
}

double ring_all_gather_us(const Flat& flat, double bytes) {
  if (flat.ranks <= 1) return 0;
  return (flat.ranks - 1) * flat.link.latency_us +
         wire_us(flat, others_share(flat.ranks, bytes));
}

double ring_all_reduce_us(const Flat& flat, double bytes) {
  return ring_reduce_scatter_us(flat, bytes) + ring_all_gather_us(flat, bytes);
}

double halving_all_gather_us(const Flat& flat, double bytes) {
  const Flat power = folded(flat);
  const double inner = rounds(power.ranks) * flat.link.latency_us +
                       wire_us(flat, others_share(power.ranks, bytes));
  if (power.ranks == flat.ranks || flat.ranks <= 1) return inner;
  return inner + message_time_us(flat.link, bytes);
}

double halving_reduce_scatter_us(const Flat& flat, double bytes) {
  const Flat power = folded(flat);
  const double folds = power.ranks == flat.ranks ? 0 : bytes;
  return halving_all_gather_us(flat, bytes) +
         add_us(flat, others_share(power.ranks, bytes) + folds);
}

double halving_all_reduce_us(const Flat& flat, double bytes) {
  return halving_reduce_scatter_us(flat, bytes) +
         halving_all_gather_us(flat, bytes);
}

double tree_broadcast_us(const Flat& flat, double bytes) {
  return rounds(flat.ranks) * message_time_us(flat.link, bytes);
}

double tree_reduce_us(const Flat& flat, double bytes) {
  return tree_broadcast_us(flat, bytes) +
         rounds(flat.ranks) * add_us(flat, bytes);
}

double tree_all_reduce_us(const Flat& flat, double bytes) {
  return tree_reduce_us(flat, bytes) + tree_broadcast_us(flat, bytes);
}

double ring_broadcast_us(const Flat& flat, double bytes) {
  return tree_gather_us(flat, bytes) + ring_all_gather_us(flat, bytes);
}

double ring_reduce_us(const Flat& flat, double bytes) {
  return ring_reduce_scatter_us(flat, bytes) + tree_gather_us(flat, bytes);
}

double linear_gather_us(const Flat& flat, double bytes) {
  if (flat.ranks <= 1) return 0;
  return flat.link.latency_us + (flat.ranks - 2) * flat.message_us +
         wire_us(flat, others_share(flat.ranks, bytes));
}

double tree_gather_us(const Flat& flat, double bytes) {
  return rounds(flat.ranks) * flat.link.latency_us +
         wire_us(flat, others_share(flat.ranks, bytes));
}

double pairwise_all_to_all_us(const Flat& flat, double bytes) {
  if (flat.ranks <= 1) return 0;
  const double round_us = std::max(flat.link.latency_us, flat.message_us);
  return flat.link.latency_us + (flat.ranks - 2) * round_us +
         wire_us(flat, others_share(flat.ranks, bytes));
}

double tree_barrier_us(const Flat& flat) {
  return rounds(flat.ranks) * flat.link.latency_us;
}

double tier_bound_us(const Dims& dims, const std::vector<Link>& links,
                     double bytes) {
  SHEAF_CHECK(links.size() == dims.sizes.size(), "topology ", dims.text(),
              " has ", dims.sizes.size(), " tiers, but ", links.size(),
              " links are given; pass one per tier");
  double bound = 0;
  for (std::size_t i = 0; i < links.size(); ++i)
    bound = std::max(bound, time_us(2 * others_share(dims.sizes[i], bytes),
                                    links[i].bandwidth_gbs));
  return bound;
}

double shared_bound_us(double memory_gbs, int ranks, double bytes) {
  return ranks <= 1 ? 0 : time_us(2.0 * ranks * bytes, memory_gbs);
}

}  // namespace sheaf::topo
