#pragma once
// Which ranks of a rank file share a core; a part of its linter.

#include "sheaf/topo/rankfile.hpp"

namespace sheaf::topo {

// The host of an entry, with +nX looked up; null when it is not listed.
const HostShape* find_host(const RankEntry& entry,
                           const std::vector<HostShape>& hosts);

struct Overlap {
  const RankEntry* first;  // the earlier line
  const RankEntry* second;
  long core;  // the lowest core that both have
};

// All pairs of unlike ranks that share a core. Where the shape of a host is
// not known, cores of a socket and cores of the host cannot be compared.
std::vector<Overlap> find_overlaps(const RankFile& file,
                                   const std::vector<HostShape>& hosts);

}  // namespace sheaf::topo
