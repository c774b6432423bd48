#pragma once
// Messages between two ranks of a group. Messages match by sender and tag, in
// the order sent; element type and count must agree. The buffers must stay
// alive and must not be accessed until the operation completes. Any thread may
// call these functions, several at a time; messages between two ranks with
// equal tags then match in an unspecified order. An invalid rank throws
// UsageError; a peer that died or ended, CommError; a late peer, TimeoutError.

#include <chrono>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/work.hpp"

namespace sheaf::comm {

// As the sender of a receive: any rank of the group.
inline constexpr int kAnySource = -1;

struct MessageOptions {
  int tag = 0;
  std::chrono::milliseconds timeout{0};  // zero: the default timeout
};

// Blocks until the buffer may be reused, possibly until the message is
// received.
void send(const Group& group, ConstBuffer data, int to,
          const MessageOptions& options = {});
// Returns the rank of the sender, which is useful with kAnySource.
int recv(const Group& group, Buffer data, int from,
         const MessageOptions& options = {});

// Nonblocking versions. The operation is complete when wait() or test() on the
// Work reports it.
Work isend(const Group& group, ConstBuffer data, int to,
           const MessageOptions& options = {});
Work irecv(const Group& group, Buffer data, int from,
           const MessageOptions& options = {});

}  // namespace sheaf::comm
