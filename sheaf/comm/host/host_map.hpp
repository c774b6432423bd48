#pragma once
// Mapping of the ranks of a group to hosts.

#include <string>
#include <vector>

namespace sheaf::comm {

struct HostMap {
  // The group's ranks on each host, in ascending order; hosts are ordered by
  // their first rank.
  std::vector<std::vector<int>> hosts;
  std::vector<int> host_of;   // by rank
  std::vector<int> local_of;  // by rank: index in hosts[host_of[rank]]
  int rank = 0;               // this process
  int host = 0;
  int local = 0;

  int size() const { return static_cast<int>(host_of.size()); }
  int host_count() const { return static_cast<int>(hosts.size()); }
  int local_count() const { return host_size(host); }
  int host_size(int index) const {
    return static_cast<int>(hosts[static_cast<std::size_t>(index)].size());
  }
  const std::vector<int>& local_ranks() const {
    return hosts[static_cast<std::size_t>(host)];
  }
  bool is_local(int other) const {
    return host_of[static_cast<std::size_t>(other)] == host;
  }
  // Whether every host has the same number of ranks.
  bool is_uniform() const;
  int widest_host() const;
};

// `host_keys[r]` names the host of rank r.
HostMap make_host_map(const std::vector<std::string>& host_keys, int rank);
// The host_map of a group whose rank i is `ranks[i]` of `parent`.
HostMap sub_host_map(const HostMap& parent, const std::vector<int>& ranks,
                     int rank);
// A host_map in which every rank is a host, ordered host by host. Used by
// algorithms without shared memory.
HostMap flat_host_map(const HostMap& host_map);

}  // namespace sheaf::comm
