#include "sheaf/comm/choice/select.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/choice/tuner.hpp"
#include "sheaf/topo/cost.hpp"

namespace sheaf::comm {
namespace {

// Up to this size a host's traffic goes through one rank: fewer messages matter
// more than sharing the work.
constexpr std::size_t kOneLaneBytes = std::size_t{64} << 10;
constexpr std::size_t kHostSegmentBytes = std::size_t{256} << 10;

// Every rank reads the slots of all ranks, so the limit decreases with the
// number of ranks.
std::size_t small_limit(int ranks) {
  return std::min(
      kSmallBytes,
      4 * kSmallBytes / static_cast<std::size_t>(std::max(1, ranks)));
}

// The tiers between hosts, when shared memory serves the tiers within a host.
// Null unless a leading product of the declared dimensions equals the number of
// ranks on every host.
std::optional<std::vector<int>> outer_dims(const GroupCore& group,
                                           const topo::Dims& dims) {
  if (!group.host_map().is_uniform()) return std::nullopt;
  int product = 1;
  for (std::size_t i = 0; i <= dims.sizes.size(); ++i) {
    if (product == group.host_map().local_count())
      return std::vector<int>(dims.sizes.begin() + static_cast<long>(i),
                              dims.sizes.end());
    if (i < dims.sizes.size()) product *= dims.sizes[i];
  }
  return std::nullopt;
}

TierAlgorithm fastest(const topo::Machine& machine, int size, double bytes,
                      double share, bool is_last) {
  topo::Flat tier{.ranks = size,
                  .link = machine.network,
                  .reduce_gbs = machine.reduce_gbs,
                  .message_us = machine.message_us};
  tier.link.bandwidth_gbs *= share;  // share of the host's egress bandwidth
  const double ring = topo::ring_all_reduce_us(tier, bytes);
  const double halving = topo::halving_all_reduce_us(tier, bytes);
  const double tree = topo::tree_all_reduce_us(tier, bytes);
  if (is_last && tree < ring && tree < halving) return TierAlgorithm::kTree;
  return halving < ring ? TierAlgorithm::kHalving : TierAlgorithm::kRing;
}

std::vector<TierAlgorithm> best_tiers(const topo::Machine& machine,
                                      const PipelinePlan& plan,
                                      std::size_t bytes) {
  std::vector<TierAlgorithm> algorithms;
  double left = static_cast<double>(bytes) / plan.lanes;
  for (std::size_t i = 0; i < plan.outer_dims.size(); ++i) {
    const int size = plan.outer_dims[i];
    algorithms.push_back(fastest(machine, size, left, 1.0 / plan.lanes,
                                 i + 1 == plan.outer_dims.size()));
    left /= size;
  }
  return algorithms;
}

PipelinePlan shared_plan(GroupCore& group, std::size_t bytes) {
  const HostMap& host_map = group.host_map();
  PipelinePlan plan;
  if (host_map.host_count() == 1) {
    plan.lanes = host_map.local_count();
    plan.segment_bytes = kHostSegmentBytes;
  } else {
    plan.lanes = bytes <= kOneLaneBytes ? 1 : host_map.widest_host();
    plan.segment_bytes = kMaxSegmentBytes;  // the same on all hosts
  }
  plan.outer_dims = {host_map.host_count()};
  return plan;
}

PipelinePlan flat_plan(std::vector<int> dims, TierAlgorithm algorithm) {
  PipelinePlan plan;
  plan.is_flat = true;
  plan.segment_bytes = kMaxSegmentBytes;
  plan.tier_algorithms.assign(dims.size(), algorithm);
  plan.outer_dims = std::move(dims);
  return plan;
}

std::optional<topo::Dims> declared(GroupCore& group) {
  const auto& dims = group.runtime().options().dims;
  // Dimensions are declared for the world; other groups use their hosts.
  if (!dims || dims->product() != group.size()) return std::nullopt;
  return dims;
}

Choice forced(GroupCore& group, Algorithm algorithm, std::size_t bytes) {
  const bool is_one_host = group.host_map().host_count() == 1;
  const std::vector<int> all{group.size()};
  switch (algorithm) {
    case Algorithm::kRing:
      return {DataPath::kPipeline, flat_plan(all, TierAlgorithm::kRing)};
    case Algorithm::kHalving:
      return {DataPath::kPipeline, flat_plan(all, TierAlgorithm::kHalving)};
    case Algorithm::kTree:
      return {DataPath::kPipeline, flat_plan(all, TierAlgorithm::kTree)};
    case Algorithm::kMpi:
      return {DataPath::kMpi, {}};
    case Algorithm::kShared:
      SHEAF_CHECK(is_one_host, "algorithm shm needs all ranks on one host, ",
                  "group ", group.id(), " has ", group.host_map().host_count(),
                  "; use hierarchical");
      [[fallthrough]];
    default: {
      Choice choice{DataPath::kPipeline, shared_plan(group, bytes)};
      choice.plan.tier_algorithms =
          best_tiers(group.runtime().machine(), choice.plan, bytes);
      return choice;
    }
  }
}

// Mode r, and mode n on CPUs: a ring in every declared dimension.
Choice rings(GroupCore& group) {
  const auto dims = declared(group);
  return {DataPath::kPipeline,
          flat_plan(dims ? dims->sizes : std::vector<int>{group.size()},
                    TierAlgorithm::kRing)};
}

Choice best(GroupCore& group, std::size_t bytes) {
  Choice choice{DataPath::kPipeline, shared_plan(group, bytes)};
  if (const auto dims = declared(group)) {
    const auto outer = outer_dims(group, *dims);
    if (!outer) {
      choice.plan = flat_plan(dims->sizes, TierAlgorithm::kRing);
    } else if (!outer->empty()) {
      choice.plan.outer_dims = *outer;
    }
  }
  choice.plan.tier_algorithms =
      best_tiers(group.runtime().machine(), choice.plan, bytes);
  return choice;
}

bool fits_slot(GroupCore& group, std::size_t bytes) {
  return group.host_map().host_count() == 1 &&
         bytes <= small_limit(group.size());
}

// Within a host, shared memory adds in rank order. None of the algorithms that
// exchange messages do.
Choice in_order(GroupCore& group, std::size_t bytes) {
  if (group.host_map().host_count() > 1) return {DataPath::kOrdered, {}};
  if (fits_slot(group, bytes)) return {DataPath::kSmall, {}};
  return forced(group, Algorithm::kShared, bytes);
}

Algorithm forced_algorithm(GroupCore& group, const CollectiveOptions& options) {
  if (options.algorithm != Algorithm::kAuto) return options.algorithm;
  const auto& name = group.runtime().options().algorithm;
  return name ? topo::parse_algorithm(*name) : Algorithm::kAuto;
}

}  // namespace

std::string_view name_of(TierAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case TierAlgorithm::kHalving:
      return "halving";
    case TierAlgorithm::kTree:
      return "tree";
    default:
      return "ring";
  }
}

bool is_reproducible(GroupCore& group, const CollectiveOptions& options) {
  return options.reproducible || group.runtime().options().reproducible;
}

Choice select_all_reduce(GroupCore& group, DType dtype, std::size_t bytes,
                         const CollectiveOptions& options) {
  if (is_reproducible(group, options)) return in_order(group, bytes);
  const Algorithm algorithm = forced_algorithm(group, options);
  if (algorithm != Algorithm::kAuto) return forced(group, algorithm, bytes);
  const auto& settings = group.runtime().options();
  if (settings.mode == topo::Mode::kMpi) return {DataPath::kMpi, {}};
  if (settings.mode == topo::Mode::kRing || settings.mode == topo::Mode::kNccl)
    return rings(group);
  const Choice usual = fits_slot(group, bytes) ? Choice{DataPath::kSmall, {}}
                                               : best(group, bytes);
  return settings.mode == topo::Mode::kExplore
             ? Tuner::of(group).choose(dtype, bytes, usual)
             : usual;
}

Choice select_rooted(GroupCore& group, Flow flow, std::size_t bytes,
                     const CollectiveOptions& options) {
  if (flow == Flow::kReduce && is_reproducible(group, options))
    return in_order(group, bytes);
  const Algorithm algorithm = forced_algorithm(group, options);
  if (algorithm == Algorithm::kTree) return forced(group, algorithm, bytes);
  if (fits_slot(group, bytes)) return {DataPath::kSmall, {}};
  return {DataPath::kPipeline, shared_plan(group, bytes)};
}

}  // namespace sheaf::comm
