#pragma once
// Detects that the host of a peer cannot be reached any more: power loss, a cut
// link. The measure is whether its kernel acknowledges what was sent. A peer
// that is stopped, busy or does not read still acknowledges, so it is never
// taken for a lost host, however long it computes.

#include <chrono>

namespace sheaf::comm {

// Without any acknowledgment for this long, a host is lost: the value of
// SHEAF_HOST_TIMEOUT, such as "1.5s" (the default). Throws UsageError if that
// is not a duration.
std::chrono::milliseconds host_timeout();

// What the kernel knows about the data sent on a connection. Data that waits
// because the peer does not read is not in transit.
struct Transit {
  bool has_data = false;  // packets wait for their acknowledgment
  std::chrono::milliseconds since_acknowledgment{};
};

class AckWatch {
 public:
  explicit AckWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // Looks at a connection; to be called several times per limit. Returns true
  // if data was in transit, and nothing was acknowledged, for about the limit.
  bool is_cut_off(int fd, std::chrono::steady_clock::time_point now);
  bool is_cut_off(const Transit& transit,
                  std::chrono::steady_clock::time_point now);

 private:
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point last_look_{};
  // The first look that saw the data in transit.
  std::chrono::steady_clock::time_point waiting_since_{};
};

}  // namespace sheaf::comm
