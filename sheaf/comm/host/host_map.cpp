#include "sheaf/comm/host/host_map.hpp"

#include <algorithm>
#include <map>

namespace sheaf::comm {
namespace {

template <class Key>
HostMap layout_of(const std::vector<Key>& keys, int rank) {
  HostMap host_map;
  host_map.rank = rank;
  std::map<Key, int> index_of;
  for (int r = 0; r < static_cast<int>(keys.size()); ++r) {
    const auto [it, is_new] = index_of.try_emplace(
        keys[static_cast<std::size_t>(r)], host_map.host_count());
    if (is_new) host_map.hosts.emplace_back();
    auto& members = host_map.hosts[static_cast<std::size_t>(it->second)];
    host_map.host_of.push_back(it->second);
    host_map.local_of.push_back(static_cast<int>(members.size()));
    members.push_back(r);
  }
  host_map.host = host_map.host_of[static_cast<std::size_t>(rank)];
  host_map.local = host_map.local_of[static_cast<std::size_t>(rank)];
  return host_map;
}

}  // namespace

int HostMap::widest_host() const {
  int widest = 0;
  for (const auto& members : hosts)
    widest = std::max(widest, static_cast<int>(members.size()));
  return widest;
}

bool HostMap::is_uniform() const {
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto& members) {
    return members.size() == hosts.front().size();
  });
}

HostMap make_host_map(const std::vector<std::string>& host_keys, int rank) {
  return layout_of(host_keys, rank);
}

HostMap sub_host_map(const HostMap& parent, const std::vector<int>& ranks,
                     int rank) {
  std::vector<int> keys;
  for (const int member : ranks)
    keys.push_back(parent.host_of[static_cast<std::size_t>(member)]);
  return layout_of(keys, rank);
}

HostMap flat_host_map(const HostMap& host_map) {
  HostMap flat;
  flat.rank = host_map.rank;
  flat.host_of.resize(host_map.host_of.size());
  flat.local_of.resize(host_map.host_of.size(), 0);
  for (const auto& members : host_map.hosts)
    for (const int member : members) {
      flat.host_of[static_cast<std::size_t>(member)] = flat.host_count();
      flat.hosts.push_back({member});
    }
  flat.host = flat.host_of[static_cast<std::size_t>(host_map.rank)];
  return flat;
}

}  // namespace sheaf::comm
