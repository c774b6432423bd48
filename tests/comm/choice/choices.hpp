#pragma once
// Choices of an algorithm, for tests.

#include <string>
#include <vector>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/host/host_map.hpp"

namespace sheaf::comm::choices {

inline HostMap host_map_of(const std::vector<std::string>& hosts) {
  return make_host_map(hosts, 0);
}

inline const Choice kSmall{DataPath::kSmall, {}};

inline Choice over(std::vector<int> hosts) {
  Choice choice;
  choice.plan.outer_dims = std::move(hosts);
  choice.plan.tier_algorithms.assign(choice.plan.outer_dims.size(),
                                     TierAlgorithm::kRing);
  choice.plan.segment_bytes = std::size_t{1} << 20;
  return choice;
}

}  // namespace sheaf::comm::choices
