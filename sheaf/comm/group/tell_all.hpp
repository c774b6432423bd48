#pragma once
// A word among the ranks of a group from within the group's own job, where no
// other operation can come between.

#include <cstring>
#include <string_view>
#include <vector>

#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

// What every rank said, by rank; at most kSmallBytes each, of one size. All
// ranks call it at the same point of the group's order. Each of them hears all
// others directly, so it is for few bytes and now and then.
std::vector<std::byte> tell_all(GroupCore& group, std::string_view name,
                                const void* mine, std::size_t bytes);

template <class T>
std::vector<std::vector<T>> tell_all(GroupCore& group, std::string_view name,
                                     const std::vector<T>& mine) {
  const auto bytes =
      tell_all(group, name, mine.data(), mine.size() * sizeof(T));
  std::vector<std::vector<T>> all(static_cast<std::size_t>(group.size()),
                                  std::vector<T>(mine.size()));
  for (std::size_t rank = 0; rank < all.size() && !mine.empty(); ++rank)
    std::memcpy(all[rank].data(), bytes.data() + rank * mine.size() * sizeof(T),
                mine.size() * sizeof(T));
  return all;
}

}  // namespace sheaf::comm
