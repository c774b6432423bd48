#include "sheaf/topo/rankfile_overlap.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "sheaf/topo/text.hpp"

namespace sheaf::topo {
namespace {

// A range of cores, numbered over the whole host if its shape is known,
// otherwise within one socket.
struct Span {
  int socket;
  long first;
  long last;
};

Span span_of(const HostShape* host, const CoreRange& range) {
  const bool has_open_end = range.last == CoreRange::kAllCores;
  if (host == nullptr || range.socket == CoreRange::kWholeHost ||
      range.socket >= static_cast<int>(host->socket_cores.size()))
    return {range.socket, range.first,
            has_open_end ? std::numeric_limits<int>::max() : range.last};
  long before = 0;
  for (int i = 0; i < range.socket; ++i) before += host->socket_cores[i];
  const int last =
      has_open_end ? host->socket_cores[range.socket] - 1 : range.last;
  return {CoreRange::kWholeHost, before + range.first, before + last};
}

std::optional<long> first_shared(const RankEntry& a, const RankEntry& b,
                                 const HostShape* host) {
  std::optional<long> lowest;
  for (const CoreRange& range_a : a.slots) {
    for (const CoreRange& range_b : b.slots) {
      const Span x = span_of(host, range_a), y = span_of(host, range_b);
      if (x.socket != y.socket || x.first > y.last || y.first > x.last)
        continue;
      const long core = std::max(x.first, y.first);
      lowest = std::min(core, lowest.value_or(core));
    }
  }
  return lowest;
}

}  // namespace

const HostShape* find_host(const RankEntry& entry,
                           const std::vector<HostShape>& hosts) {
  if (entry.host.starts_with("+n")) {
    const auto index = parse_count(entry.host.substr(2));
    const bool is_there =
        index && static_cast<std::size_t>(*index) < hosts.size();
    return is_there ? &hosts[*index] : nullptr;
  }
  for (const HostShape& host : hosts)
    if (host.name == entry.host) return &host;
  return nullptr;
}

std::vector<Overlap> find_overlaps(const RankFile& file,
                                   const std::vector<HostShape>& hosts) {
  std::map<std::string, std::vector<const RankEntry*>> by_host;
  std::vector<Overlap> overlaps;
  for (const RankEntry& entry : file.entries) {
    const HostShape* host = find_host(entry, hosts);
    auto& earlier = by_host[host ? host->name : entry.host];
    for (const RankEntry* other : earlier) {
      if (other->rank == entry.rank) continue;
      if (const auto core = first_shared(*other, entry, host))
        overlaps.push_back({other, &entry, *core});
    }
    earlier.push_back(&entry);
  }
  return overlaps;
}

}  // namespace sheaf::topo
