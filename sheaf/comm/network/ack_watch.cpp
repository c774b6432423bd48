#include "sheaf/comm/network/ack_watch.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultHostTimeout(1500);

// Whether packets in transit wait for their acknowledgment, and none has come
// for `limit`. Data that waits because the peer does not read is not in
// transit.
bool lacks_acknowledgment(int fd, milliseconds limit) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return info.tcpi_unacked > 0 &&
         milliseconds(info.tcpi_last_ack_recv) >= limit;
}

}  // namespace

milliseconds host_timeout() {
  const char* text = std::getenv("SHEAF_HOST_TIMEOUT");
  if (!text) return kDefaultHostTimeout;
  milliseconds limit;
  try {
    limit = std::chrono::duration_cast<milliseconds>(parse_duration(text));
  } catch (const UsageError& error) {
    throw UsageError(concat("SHEAF_HOST_TIMEOUT: ", error.what()));
  }
  SHEAF_CHECK(limit >= milliseconds(100), "SHEAF_HOST_TIMEOUT=", text,
              " is too short; use at least 100ms");
  return limit;
}

bool AckWatch::is_cut_off(int fd, std::chrono::steady_clock::time_point now) {
  // If this process did not run for a while, neither did anything that it
  // would have noticed: the kernel may not have handled acknowledgments yet.
  const bool was_away = now - last_look_ > limit_ / 2;
  last_look_ = now;
  const auto share = limit_ / 4;
  if (was_away || !lacks_acknowledgment(fd, share)) {
    waiting_since_ = now;
    return false;
  }
  return now - waiting_since_ >= limit_ - share;
}

}  // namespace sheaf::comm
