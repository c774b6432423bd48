#include "sheaf/comm/host/host_map.hpp"

#include <algorithm>
#include <map>

namespace sheaf::comm {
namespace {

template <class Key>
Layout layout_of(const std::vector<Key>& keys, int rank) {
  Layout layout;
  layout.rank = rank;
  std::map<Key, int> index_of;
  for (int r = 0; r < static_cast<int>(keys.size()); ++r) {
    const auto [it, is_new] = index_of.try_emplace(
        keys[static_cast<std::size_t>(r)], layout.host_count());
    if (is_new) layout.hosts.emplace_back();
    auto& members = layout.hosts[static_cast<std::size_t>(it->second)];
    layout.host_of.push_back(it->second);
    layout.local_of.push_back(static_cast<int>(members.size()));
    members.push_back(r);
  }
  layout.host = layout.host_of[static_cast<std::size_t>(rank)];
  layout.local = layout.local_of[static_cast<std::size_t>(rank)];
  return layout;
}

}  // namespace

int Layout::widest_host() const {
  int widest = 0;
  for (const auto& members : hosts)
    widest = std::max(widest, static_cast<int>(members.size()));
  return widest;
}

bool Layout::is_uniform() const {
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto& members) {
    return members.size() == hosts.front().size();
  });
}

Layout make_layout(const std::vector<std::string>& host_keys, int rank) {
  return layout_of(host_keys, rank);
}

Layout sub_layout(const Layout& parent, const std::vector<int>& ranks,
                  int rank) {
  std::vector<int> keys;
  for (const int member : ranks)
    keys.push_back(parent.host_of[static_cast<std::size_t>(member)]);
  return layout_of(keys, rank);
}

Layout flat_layout(const Layout& layout) {
  Layout flat;
  flat.rank = layout.rank;
  flat.host_of.resize(layout.host_of.size());
  flat.local_of.resize(layout.host_of.size(), 0);
  for (const auto& members : layout.hosts)
    for (const int member : members) {
      flat.host_of[static_cast<std::size_t>(member)] = flat.host_count();
      flat.hosts.push_back({member});
    }
  flat.host = flat.host_of[static_cast<std::size_t>(layout.rank)];
  return flat;
}

}  // namespace sheaf::comm
