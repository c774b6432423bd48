#pragma once
// The messages between monitors, as bytes. A decoder returns nothing if the
// bytes are not such a message, or contain ranks, kinds or times that cannot
// be.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sheaf/comm/host/alarm.hpp"
#include "sheaf/comm/host/flight.hpp"
#include "sheaf/comm/host/rank_end.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/secret.hpp"

namespace sheaf::comm {

// Where rank 0 listens, and a random number from which the key of the
// connections is derived; sent to the first ranks of other hosts.
struct MonitorAddress {
  static constexpr std::size_t kMaxAddresses = 16;
  struct Host {
    std::array<std::uint8_t, 16> ip{};
    std::int32_t prefix_bits = 0;
  };
  Bytes32 random{};
  std::array<Host, kMaxAddresses> hosts{};
  std::uint32_t count = 0;
  std::uint16_t port = 0;
};
// The valid ones of its addresses.
std::vector<Address> addresses_of(const MonitorAddress& address);

// Kind 0 is FrameLink's.
enum class MonitorMessage : std::uint32_t {
  kAlarm = 1,
  kAsk,     // send the latest operations of your ranks
  kStatus,  // the latest operation of a rank
  kBye,
  kEnd  // a rank's program has ended
};

std::optional<AlarmRecord> decode_alarm(std::span<const std::byte> bytes,
                                        int ranks);

// Contains ages instead of times, since the clocks of hosts differ.
struct RankStatus {
  std::int32_t rank = 0;
  FlightRecord record{};
};
std::vector<std::byte> encode(const RankStatus& status, std::int64_t now_ns);
std::optional<RankStatus> decode_status(std::span<const std::byte> bytes,
                                        int ranks, std::int64_t now_ns);

struct RankEndNews {
  std::int32_t rank = 0;
  std::vector<CallNumber> calls{};  // the last one of each of its groups
};
std::vector<std::byte> encode(const RankEndNews& news);
std::optional<RankEndNews> decode_end(std::span<const std::byte> bytes,
                                      int ranks);

// No message has more bytes.
extern const std::size_t kMostMonitorBytes;

}  // namespace sheaf::comm
