// Ranks as threads, on simulated hosts.

#include <latch>

#include "sheaf/comm/group/world.hpp"
#include "under_test.hpp"

namespace differential {
namespace {

// hosts=112: ranks 0 and 1 on one host, rank 2 on another.
std::vector<std::string> hosts_of(const Case& one) {
  std::string digits = std::to_string(one.setting.get("hosts"));
  std::vector<std::string> hosts;
  for (int rank = 0; rank < one.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    hosts.push_back(at < digits.size() ? digits.substr(at, 1)
                                       : digits.substr(digits.size() - 1));
  }
  return hosts;
}

}  // namespace

std::vector<RankResult> run_threads(const Case& one) {
  std::vector<RankResult> results(static_cast<std::size_t>(one.ranks()));
  std::latch everybody(one.ranks());
  sheaf::topo::Options options;
  options.timeout_ms = 20000;
  sheaf::comm::run_threads(
      hosts_of(one),
      [&](const sheaf::comm::Group& group) {
        results[static_cast<std::size_t>(group.rank())] = run_rank(one, group);
        everybody.arrive_and_wait();  // no rank leaves while others work
      },
      options);
  return results;
}

}  // namespace differential
