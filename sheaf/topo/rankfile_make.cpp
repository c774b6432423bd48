#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/topo/rankfile.hpp"

namespace sheaf::topo {
namespace {

void check_hosts(const Dims& dims, const std::vector<std::string>& hosts) {
  const int needed = dims.product() / dims.sizes[0];
  const int given = static_cast<int>(hosts.size());
  SHEAF_CHECK(given == needed, "topology ", dims.text(), " needs ", needed,
              needed == 1 ? " host" : " hosts",
              " (the product of all dimensions but the first), but ", given,
              given == 1 ? " is" : " are", " given; list ", needed,
              " or change the topology");
  std::set<std::string> seen;
  for (const std::string& host : hosts)
    SHEAF_CHECK(seen.insert(host).second, "host '", host,
                "' is listed twice; each host carries all ranks of the first "
                "dimension, so list it once");
}

}  // namespace

RankFile make_rankfile(const Dims& dims, const std::vector<std::string>& hosts,
                       int cores) {
  SHEAF_CHECK(!dims.sizes.empty(), "a rank file needs a topology, such as 4x3");
  check_hosts(dims, hosts);
  const int per_host = dims.sizes[0];
  SHEAF_CHECK(cores >= per_host, "topology ", dims.text(), " puts ", per_host,
              " ranks on a host, but a host has ", cores,
              cores == 1 ? " core" : " cores",
              "; ranks do not share cores: use fewer ranks per host");
  const int share = cores / per_host;
  RankFile file;
  for (const std::string& host : hosts) {
    for (int local = 0; local < per_host; ++local) {
      const int rank = static_cast<int>(file.entries.size());
      const int first = local * share;
      file.entries.push_back(
          {rank + 1,
           rank,
           host,
           {{CoreRange::kWholeHost, first, first + share - 1}}});
    }
  }
  file.lines = static_cast<int>(file.entries.size());
  return file;
}

}  // namespace sheaf::topo
