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

Transit transit_of(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return {info.tcpi_unacked > 0, milliseconds(info.tcpi_last_ack_recv)};
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
  return is_cut_off(transit_of(fd), now);
}

// An acknowledgment after the first look may be that of the data seen then, and
// what is in transit now may have been sent a moment ago: the wait begins anew.
// Without this, a process that seldom runs, and looks right after it has sent,
// would see data in transit at every look.
bool AckWatch::is_cut_off(const Transit& transit,
                          std::chrono::steady_clock::time_point now) {
  // If this process did not run for a while, neither did anything that it
  // would have noticed: the kernel may not have handled acknowledgments yet.
  const bool was_away = now - last_look_ > limit_ / 2;
  last_look_ = now;
  const bool has_answer = transit.since_acknowledgment < now - waiting_since_;
  if (was_away || !transit.has_data || has_answer) {
    waiting_since_ = now;
    return false;
  }
  // The data was sent some time before the first look.
  return now - waiting_since_ >= limit_ - limit_ / 4;
}

}  // namespace sheaf::comm
