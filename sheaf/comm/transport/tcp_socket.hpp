#pragma once
// Sockets of the TCP transport: addresses, listening, connecting.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::comm {

// Owns a file descriptor.
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

// Whether a socket call that failed with this errno should be retried.
inline bool is_for_later(int error) {
  return error == EAGAIN || error == EINTR;
}

// IPv4 address and network mask of an interface, in network byte order.
struct Address {
  std::uint32_t ip = 0;
  std::uint32_t mask = 0;
  bool operator==(const Address&) const = default;
};
std::string text_of(const Address& address);  // "10.0.0.1/24"

// The addresses and port at which a rank listens. The token rejects other
// programs, and peers that meant another process at the same address.
struct TcpCard {
  std::uint16_t port = 0;  // host byte order
  std::uint64_t token = 0;
  std::vector<Address> addresses;
};
std::string text_of(const TcpCard& card);
// Throws CommError, which names `rank`, if the text is not a card.
TcpCard parse_card(const std::string& text, int rank);

// Addresses of this host, loopback last; of one interface only if `interface`
// is not empty. Throws UsageError, which lists the interfaces with an address,
// if that one has none.
std::vector<Address> list_addresses(const std::string& interface);

// Listens on all interfaces, or on the card's address if it has only one, and
// sets the card's port and token.
Socket listen_on_any_port(TcpCard& card);

// Sorts `theirs` so that addresses in the same network as one of `mine` come
// first: the others may be unreachable, which takes time to detect.
std::vector<Address> by_nearness(std::vector<Address> theirs,
                                 const std::vector<Address>& mine);

// The first message of both sides of a connection.
struct Hello {
  std::uint64_t magic = 0x5348454146544331;  // differs in other byte orders
  std::uint64_t token = 0;                   // of the listening side
  std::int32_t rank = 0;                     // of the sender
  std::int32_t size = 0;
};

// Connects to the rank described by `card` and exchanges hellos. Returns an
// empty socket if no address answers in time; `why` is then set to the error of
// each address.
struct ConnectPlan {
  const TcpCard& card;
  std::vector<Address> addresses;
  Hello hello;
  int peer;
  std::chrono::milliseconds timeout;
};
Socket connect_to(const ConnectPlan& plan, std::string& why);

// Return whether exactly `bytes` bytes were read before the deadline, or
// written.
using Deadline = std::chrono::steady_clock::time_point;
bool read_within(int fd, void* data, std::size_t bytes, Deadline deadline);
bool write_all(int fd, const void* data, std::size_t bytes);

// Sets the socket options: no Nagle delay, nonblocking, and keep-alive, so that
// an unresponsive host causes an error.
void prepare(const Socket& socket);

}  // namespace sheaf::comm
