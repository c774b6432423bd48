#pragma once
// Finds ranks of a rank file that share a core. Used by lint().

#include "sheaf/topo/rankfile.hpp"

namespace sheaf::topo {

// The host of an entry, with +nX resolved; null if it is not listed.
const HostShape* find_host(const RankEntry& entry,
                           const std::vector<HostShape>& hosts);

struct Overlap {
  const RankEntry* first;  // the earlier line
  const RankEntry* second;
  long core;  // the lowest shared core
};

// All pairs of different ranks that share a core. If the shape of a host is
// unknown, cores of a socket and cores of the host are not compared.
std::vector<Overlap> find_overlaps(const RankFile& file,
                                   const std::vector<HostShape>& hosts);

}  // namespace sheaf::topo
