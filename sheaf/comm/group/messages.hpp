#pragma once
// Messages between ranks of a group, from within a call.

#include <cstring>
#include <string_view>
#include <vector>

#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

// A batch of messages.
class Messages {
 public:
  explicit Messages(CollectiveCall& call) : call_(call) {}
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `rank` is a rank of the group. Messages between two ranks match in the
  // order posted. Empty messages are not sent.
  void send(int rank, const void* data, std::size_t bytes);
  void receive(int rank, void* data, std::size_t bytes);
  // Blocks until all messages are complete.
  void wait();

 private:
  CollectiveCall& call_;
  std::vector<Request> requests_;
};

// Exchanges a few bytes between all ranks of a group from within a job of the
// group, so that no other operation of the group can run in between. Returns
// the data of every rank, ordered by rank: at most kSmallBytes each, the same
// size on all ranks. All ranks must call it at the same point of the group's
// sequence of operations. Each rank receives a message from every rank of other
// hosts, so use it for few bytes and rarely.
std::vector<std::byte> all_gather_small(GroupCore& group, std::string_view name,
                                        const void* mine, std::size_t bytes);

template <class T>
std::vector<std::vector<T>> all_gather_small(GroupCore& group,
                                             std::string_view name,
                                             const std::vector<T>& mine) {
  const auto bytes =
      all_gather_small(group, name, mine.data(), mine.size() * sizeof(T));
  std::vector<std::vector<T>> all(static_cast<std::size_t>(group.size()),
                                  std::vector<T>(mine.size()));
  for (std::size_t rank = 0; rank < all.size() && !mine.empty(); ++rank)
    std::memcpy(all[rank].data(), bytes.data() + rank * mine.size() * sizeof(T),
                mine.size() * sizeof(T));
  return all;
}

}  // namespace sheaf::comm
