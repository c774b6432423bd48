#include "sheaf/comm/network/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::comm {
namespace {

// The form in which the kernel takes and returns addresses.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  int family() const { return storage.ss_family; }
};

SocketName name_of(const Address& address, std::uint16_t port) {
  SocketName name;
  if (address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.ip.data() + Address::kV4Prefix.size(),
                sizeof v4.sin_addr);
    std::memcpy(&name.storage, &v4, name.length = sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.ip.data(), sizeof v6.sin6_addr);
    std::memcpy(&name.storage, &v6, name.length = sizeof v6);
  }
  return name;
}

// The address and port of an IPv4 or IPv6 name; nothing for other families.
std::optional<Endpoint> endpoint_of(const sockaddr* name) {
  Endpoint result;
  result.address.prefix_bits = 128;
  if (name && name->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(name);
    std::copy(Address::kV4Prefix.begin(), Address::kV4Prefix.end(),
              result.address.ip.begin());
    std::memcpy(result.address.ip.data() + Address::kV4Prefix.size(),
                &v4->sin_addr, sizeof v4->sin_addr);
    result.port = ntohs(v4->sin_port);
  } else if (name && name->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(name);
    std::memcpy(result.address.ip.data(), &v6->sin6_addr, sizeof v6->sin6_addr);
    result.port = ntohs(v6->sin6_port);
  } else {
    return std::nullopt;
  }
  return result;
}

int bits_of_mask(const sockaddr* mask) {
  const auto network = endpoint_of(mask);
  if (!network) return 128;
  const bool is_v4 = mask->sa_family == AF_INET;
  int bits = is_v4 ? Address::kV4PrefixBits : 0;
  for (std::size_t i = is_v4 ? Address::kV4Prefix.size() : 0; i < 16; ++i)
    bits += std::popcount(network->address.ip[i]);
  return bits;
}

bool is_link_local(const Address& address) {
  return address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80;
}

Socket new_socket(int family, int type) {
  return Socket(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// If nothing listens at a port of this host that is also used for outgoing
// connections, the kernel may choose it for this end as well: TCP then connects
// the socket to itself, and nobody else can listen at the port.
bool is_connected_to_itself(const Socket& socket) {
  SocketName mine;
  SocketName theirs;
  return ::getsockname(socket.fd(), mine.get(), &mine.length) == 0 &&
         ::getpeername(socket.fd(), theirs.get(), &theirs.length) == 0 &&
         mine.length == theirs.length &&
         std::memcmp(&mine.storage, &theirs.storage, mine.length) == 0;
}

// Whether the socket listens now; sets the port.
bool bind_and_listen(const Socket& socket, SocketName name,
                     std::uint16_t& port) {
  const int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), name.get(), name.length) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0)
    return false;
  name.length = sizeof name.storage;
  if (::getsockname(socket.fd(), name.get(), &name.length) != 0) return false;
  port = endpoint_of(name.get())->port;
  return true;
}

}  // namespace

std::vector<Address> list_addresses(const std::string& interface) {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0)
    throw CommError("cannot list the network interfaces of this host");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(head, freeifaddrs);
  std::vector<Address> result;
  std::set<std::string> names;
  for (const bool loopback : {false, true})
    for (const ifaddrs* it = head; it; it = it->ifa_next) {
      auto found = endpoint_of(it->ifa_addr);
      if (!found || !(it->ifa_flags & IFF_UP)) continue;
      names.insert(it->ifa_name);
      if (is_link_local(found->address)) continue;
      if (loopback != static_cast<bool>(it->ifa_flags & IFF_LOOPBACK)) continue;
      found->address.prefix_bits = bits_of_mask(it->ifa_netmask);
      if (interface.empty() || interface == it->ifa_name)
        result.push_back(found->address);
    }
  SHEAF_CHECK(!result.empty(), "SHEAF_INTERFACE=", interface,
              " is not an interface of this host with an address; use one of: ",
              join(std::vector<std::string>(names.begin(), names.end()), ", "));
  return result;
}

std::vector<Endpoint> find_endpoints(const std::string& host,
                                     std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* head = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &wanted, &head);
  SHEAF_CHECK(code == 0, "'", host, "' is not a known host (",
              gai_strerror(code), ")");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(head, freeaddrinfo);
  std::vector<Endpoint> result;
  for (const addrinfo* it = head; it; it = it->ai_next)
    if (const auto found = endpoint_of(it->ai_addr);
        found && !is_link_local(found->address))
      result.push_back({found->address, port});
  SHEAF_CHECK(!result.empty(), "'", host,
              "' leads to a link-local IPv6 address only, which is valid on "
              "one interface and not supported; use a global address");
  std::stable_partition(
      result.begin(), result.end(),
      [](const Endpoint& endpoint) { return endpoint.address.is_v4(); });
  return result;
}

std::optional<Address> address_towards(const Endpoint& endpoint) {
  SocketName name = name_of(endpoint.address, endpoint.port);
  // A datagram socket that connects sends nothing.
  const Socket socket = new_socket(name.family(), SOCK_DGRAM);
  if (!socket || ::connect(socket.fd(), name.get(), name.length) != 0)
    return std::nullopt;
  name.length = sizeof name.storage;
  if (::getsockname(socket.fd(), name.get(), &name.length) != 0)
    return std::nullopt;
  const auto mine = endpoint_of(name.get());
  for (const Address& address : list_addresses(""))
    if (mine && address.ip == mine->address.ip) return address;
  return std::nullopt;
}

Socket listen_at(const std::optional<Address>& address, std::uint16_t& port) {
  if (address) {
    const SocketName name = name_of(*address, port);
    Socket result = new_socket(name.family(), SOCK_STREAM);
    if (result && bind_and_listen(result, name, port)) return result;
  } else {
    // One socket for IPv6 and IPv4, or for IPv4 where the kernel has no IPv6.
    const Address any_v4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
    for (const Address& any : {Address{}, any_v4}) {
      const SocketName name = name_of(any, port);
      Socket result = new_socket(name.family(), SOCK_STREAM);
      if (!result) continue;
      const int no = 0;
      if (!any.is_v4())
        setsockopt(result.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (bind_and_listen(result, name, port)) return result;
      if (errno == EADDRINUSE) break;
    }
  }
  const int error = errno;
  const std::string text = concat("cannot listen for other ranks at port ",
                                  port, ": ", strerror(error));
  errno = error;
  throw CommError(text);
}

Socket begin_to_connect(const Endpoint& endpoint, int& error) {
  const SocketName name = name_of(endpoint.address, endpoint.port);
  Socket result = new_socket(name.family(), SOCK_STREAM);
  error = 0;
  if (!result || (::connect(result.fd(), name.get(), name.length) != 0 &&
                  errno != EINPROGRESS))
    error = errno;
  return error == 0 ? std::move(result) : Socket();
}

int error_of_connecting(const Socket& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 && is_connected_to_itself(socket) ? ECONNREFUSED : error;
}

Socket connect_within(const Endpoint& endpoint, Deadline deadline, int& error) {
  Socket result = begin_to_connect(endpoint, error);
  if (result)
    error = is_ready(result.fd(), POLLOUT, deadline)
                ? error_of_connecting(result)
                : ETIMEDOUT;
  return error == 0 ? std::move(result) : Socket();
}

std::optional<Endpoint> peer_of(int fd) {
  SocketName name;
  if (::getpeername(fd, name.get(), &name.length) != 0) return std::nullopt;
  return endpoint_of(name.get());
}

}  // namespace sheaf::comm
