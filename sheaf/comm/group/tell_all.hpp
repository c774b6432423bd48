#pragma once
// Exchanges a few bytes between all ranks of a group from within a job of the
// group, so that no other operation of the group can run in between.

#include <cstring>
#include <string_view>
#include <vector>

#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

// Returns the data of every rank, ordered by rank: at most kSmallBytes each,
// the same size on all ranks. All ranks must call it at the same point of the
// group's sequence of operations. Each rank receives a message from every rank
// of other hosts, so use it for few bytes and rarely.
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
