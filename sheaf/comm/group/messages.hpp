#pragma once
// A batch of messages between ranks of a group.

#include <vector>

#include "sheaf/comm/group/collective_call.hpp"

namespace sheaf::comm {

class Messages {
 public:
  explicit Messages(Call& call) : call_(call) {}
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
  Call& call_;
  std::vector<Request> requests_;
};

}  // namespace sheaf::comm
