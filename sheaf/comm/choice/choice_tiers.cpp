// Lower bounds as in topo/cost.hpp. A host's memory must transfer every input
// and every output: 2pS/M. In a tier of q groups, 2(q-1)/q S must enter and
// leave each group.

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::comm {
namespace {

double exchange_us_per_byte(int groups, double egress_gbs) {
  return 2.0 * (groups - 1) / groups / (1e3 * egress_gbs);
}

std::string tier_texts(const PipelinePlan& plan) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < plan.outer_dims.size(); ++i)
    texts.push_back(
        concat(name_of(plan.tier_algorithms[i]), ":", plan.outer_dims[i]));
  return join(texts, ",");
}

// Bound of tier `index` of a flat plan. The tiers before it have combined
// `inside` ranks.
double flat_bound(const PipelinePlan& plan, std::size_t index, int inside,
                  const HostMap& host_map, const topo::Machine& machine) {
  const int size = plan.outer_dims[index];
  const int local = host_map.widest_host();
  if (inside * size <= local)
    return exchange_us_per_byte(size, machine.shm.bandwidth_gbs) / inside;
  const double egress = machine.network.bandwidth_gbs;
  if (inside >= local)
    return exchange_us_per_byte(size, egress) * local / inside;
  // The tier crosses host boundaries: each host must at least receive the data
  // of the others.
  return exchange_us_per_byte(host_map.host_count(), egress);
}

}  // namespace

std::string text_of(const Choice& choice, const HostMap& host_map) {
  switch (choice.path) {
    case DataPath::kSmall:
      return "small";
    case DataPath::kOrdered:
      return "ordered";
    case DataPath::kMpi:
      return "mpi";
    default:
      break;
  }
  const PipelinePlan& plan = choice.plan;
  const std::string segment =
      " segment=" + format_bytes_exactly(plan.segment_bytes);
  if (plan.is_flat) return "flat tiers=" + tier_texts(plan) + segment;
  if (host_map.host_count() == 1) return "shared" + segment;
  return concat("lanes=", plan.lanes, " tiers=", tier_texts(plan), segment);
}

std::vector<ChosenTier> tiers_of(const Choice& choice, const HostMap& host_map,
                                 const topo::Machine& machine) {
  std::vector<ChosenTier> tiers;
  if (choice.path == DataPath::kMpi || choice.path == DataPath::kOrdered)
    return tiers;
  const PipelinePlan& plan = choice.plan;
  const int local = host_map.widest_host();
  if (!plan.is_flat && local > 1)
    tiers.push_back({.name = "host",
                     .outer = kHostTier,
                     .size = local,
                     .algorithm = "shared",
                     .bound_us_per_byte = topo::shared_bound_us(
                         machine.shm_memory_gbs, local, /*bytes=*/1)});
  int inside = 1;
  const auto count = plan.tier_algorithms.size();
  for (std::size_t i = 0; i < count; inside *= plan.outer_dims[i++]) {
    const int size = plan.outer_dims[i];
    if (size == 1) continue;
    const double bound =
        plan.is_flat
            ? flat_bound(plan, i, inside, host_map, machine)
            : exchange_us_per_byte(size, machine.network.bandwidth_gbs) /
                  inside;
    tiers.push_back({.name = concat("tier ", plan.is_flat ? i : i + 1),
                     .outer = static_cast<int>(i),
                     .size = size,
                     .algorithm = std::string(name_of(plan.tier_algorithms[i])),
                     .bound_us_per_byte = bound});
  }
  return tiers;
}

double bound_us_per_byte(const HostMap& host_map,
                         const topo::Machine& machine) {
  return topo::all_reduce_bound_us(machine,
                                   {.ranks = host_map.size(),
                                    .hosts = host_map.host_count(),
                                    .ranks_per_host = host_map.widest_host(),
                                    .dims = std::nullopt},
                                   /*bytes=*/1);
}

}  // namespace sheaf::comm
