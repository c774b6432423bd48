#pragma once
// Addresses of hosts, IPv6 and IPv4, and sockets that listen on them or connect
// to them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/comm/network/socket.hpp"

namespace sheaf::comm {

// An address of an interface and its network. IPv4 addresses are mapped to
// IPv6: ::ffff:10.0.0.1; these have at least 96 network bits.
struct Address {
  static constexpr std::array<std::uint8_t, 12> kV4Prefix{
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  static constexpr int kV4PrefixBits = 96;

  std::array<std::uint8_t, 16> ip{};
  int prefix_bits = 0;  // of the 128 bits, those that identify the network

  bool is_v4() const;
  bool is_loopback() const;
  bool operator==(const Address&) const = default;
};
// The part of an address that a host cannot choose freely: all of an IPv4
// address, the first 64 bits of an IPv6 address.
Address source_of(const Address& address);
std::string text_of(const Address& address);  // "10.0.0.1/24", "fd00::7/64"
// Nothing if the text is not an address with a network.
std::optional<Address> parse_address(std::string_view text);

// Where a program listens.
struct Endpoint {
  Address address;
  std::uint16_t port = 0;  // host byte order
};
std::string text_of(const Endpoint& endpoint);  // "10.0.0.1:29500"

// The addresses of this host, loopback last; of one interface only if
// `interface` is not empty. Link-local IPv6 addresses are left out, because
// they are valid on one interface only. Throws UsageError, which lists the
// interfaces, if that one has no address.
std::vector<Address> list_addresses(const std::string& interface);

// The endpoints of a host name or address, IPv4 first, without link-local IPv6
// addresses. Throws UsageError with the reason if there are none.
std::vector<Endpoint> find_endpoints(const std::string& host,
                                     std::uint16_t port);

// The address of this host from which packets go to `endpoint`; nothing if
// there is no route.
std::optional<Address> address_towards(const Endpoint& endpoint);

// Sorts `theirs` so that addresses in the same network as one of `mine` come
// first: the others may be unreachable, which takes time to detect.
std::vector<Address> by_nearness(std::vector<Address> theirs,
                                 const std::vector<Address>& mine);

// Listens at `port`, or at a free port if it is 0, which is then set: on one
// address, or else on all interfaces. Throws CommError if it cannot; `errno` is
// then that of bind() or listen().
Socket listen_at(const std::optional<Address>& address, std::uint16_t& port);

// A nonblocking socket that has begun to connect to `endpoint`, or an empty
// one, with `error` set. It is ready for POLLOUT when it has connected, or when
// it has failed: error_of_connecting() then is not 0.
Socket begin_to_connect(const Endpoint& endpoint, int& error);
int error_of_connecting(const Socket& socket);
// Same, but waits: the result is empty, with `error` set, if it has not
// connected by the deadline.
Socket connect_within(const Endpoint& endpoint, Deadline deadline, int& error);

// The other end of a connection; nothing if it is unknown.
std::optional<Endpoint> peer_of(int fd);

}  // namespace sheaf::comm
