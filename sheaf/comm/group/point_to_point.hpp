#pragma once
// Messages between two ranks of a group. A message matches by sender and tag,
// in the order sent; type and count must agree.

#include <chrono>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/work.hpp"
#include "sheaf/comm/process/mailroom.hpp"

namespace sheaf::comm {

struct MessageOptions {
  int tag = 0;
  std::chrono::milliseconds timeout{0};  // zero takes the group's own
};

// Blocks until the data has left the buffer: perhaps until it is received.
void send(const Group& group, ConstBuffer data, int to,
          const MessageOptions& options = {});
// Returns the sender, which matters with kAnySource.
int recv(const Group& group, Buffer data, int from,
         const MessageOptions& options = {});

// Start at once and go on by themselves; see Work for the end.
Work isend(const Group& group, ConstBuffer data, int to,
           const MessageOptions& options = {});
Work irecv(const Group& group, Buffer data, int from,
           const MessageOptions& options = {});

}  // namespace sheaf::comm
