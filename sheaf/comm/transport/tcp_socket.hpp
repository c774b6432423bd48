#pragma once
// Sockets of the TCP transport: addresses, listening, connecting.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::comm {

// A file descriptor that is closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close() noexcept;

 private:
  int fd_ = -1;
};

// Whether a call on a socket that ended with this errno has only to be made
// again.
inline bool is_for_later(int error) {
  return error == EAGAIN || error == EINTR;
}

// An IPv4 address of an interface, in network order, with its network's mask.
struct Address {
  std::uint32_t ip = 0;
  std::uint32_t mask = 0;
  bool operator==(const Address&) const = default;
};
std::string text_of(const Address& address);  // "10.0.0.1/24"

// Where a rank listens. The token keeps out strangers, and peers that meant
// another process at the same address.
struct TcpCard {
  std::uint16_t port = 0;  // host order
  std::uint64_t token = 0;
  std::vector<Address> addresses;
};
std::string text_of(const TcpCard& card);
TcpCard parse_card(const std::string& text, int rank);  // CommError

// Addresses of this host, loopback last; of one interface if it is named.
// UsageError when that has none, naming those that do.
std::vector<Address> list_addresses(const std::string& interface);

// Listens on all interfaces, or on that of the card's only address.
Socket listen_on_any_port(TcpCard& card);

// `theirs` with those first that share a network with one of `mine`: others
// may be out of reach, and finding that out takes time.
std::vector<Address> by_nearness(std::vector<Address> theirs,
                                 const std::vector<Address>& mine);

// What both sides say first.
struct Hello {
  std::uint64_t magic = 0x5348454146544331;  // other byte orders differ
  std::uint64_t token = 0;                   // of the side that listens
  std::int32_t rank = 0;                     // of the side that speaks
  std::int32_t size = 0;
};

// A connection to where `card` says, after both have said hello. An empty
// socket when no address answers in time; `why` tells what each of them said.
struct ConnectPlan {
  const TcpCard& card;
  std::vector<Address> addresses;
  Hello hello;
  int peer;
  std::chrono::milliseconds timeout;
};
Socket connect_to(const ConnectPlan& plan, std::string& why);

// Whether exactly `bytes` came in, or went out, before the deadline.
using Deadline = std::chrono::steady_clock::time_point;
bool read_within(int fd, void* data, std::size_t bytes, Deadline deadline);
bool write_all(int fd, const void* data, std::size_t bytes);

// No delays, not blocking, and an error when the other host falls silent.
void prepare(const Socket& socket);

}  // namespace sheaf::comm
