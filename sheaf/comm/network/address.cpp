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
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::comm {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0,    0,
                                               0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

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
    std::memcpy(&v4.sin_addr, address.ip.data() + kMapped.size(),
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
    std::copy(kMapped.begin(), kMapped.end(), result.address.ip.begin());
    std::memcpy(result.address.ip.data() + kMapped.size(), &v4->sin_addr,
                sizeof v4->sin_addr);
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
  int bits = is_v4 ? kMappedBits : 0;
  for (std::size_t i = is_v4 ? kMapped.size() : 0; i < 16; ++i)
    bits += std::popcount(network->address.ip[i]);
  return bits;
}

bool is_link_local(const Address& address) {
  return address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80;
}

bool share_network(const Address& a, const Address& b) {
  const int bits = std::max(a.prefix_bits, b.prefix_bits);
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((a.ip[byte] ^ b.ip[byte]) >> (7 - bit % 8)) & 1) return false;
  }
  return true;
}

std::string ip_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_v4())
    inet_ntop(AF_INET, address.ip.data() + kMapped.size(), text, sizeof text);
  else
    inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

Socket new_socket(int family, int type) {
  return Socket(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

bool Address::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), ip.begin());
}

bool Address::is_loopback() const {
  if (is_v4()) return ip[12] == 127;
  return std::all_of(ip.begin(), ip.end() - 1,
                     [](std::uint8_t byte) { return byte == 0; }) &&
         ip[15] == 1;
}

std::string text_of(const Address& address) {
  return concat(ip_text(address), "/",
                address.prefix_bits - (address.is_v4() ? kMappedBits : 0));
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  const std::string ip(text.substr(0, slash));
  const bool is_v4 = ip.find(':') == ip.npos;
  Address result;
  if (is_v4) std::copy(kMapped.begin(), kMapped.end(), result.ip.begin());
  if (inet_pton(is_v4 ? AF_INET : AF_INET6, ip.c_str(),
                result.ip.data() + (is_v4 ? kMapped.size() : 0)) != 1)
    return std::nullopt;
  int bits = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || at != end || bits < 0 ||
      bits > (is_v4 ? 32 : 128))
    return std::nullopt;
  result.prefix_bits = bits + (is_v4 ? kMappedBits : 0);
  return result;
}

std::string text_of(const Endpoint& endpoint) {
  const std::string ip = ip_text(endpoint.address);
  return endpoint.address.is_v4() ? concat(ip, ":", endpoint.port)
                                  : concat("[", ip, "]:", endpoint.port);
}

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
    if (const auto found = endpoint_of(it->ai_addr))
      result.push_back({found->address, port});
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

std::vector<Address> by_nearness(std::vector<Address> theirs,
                                 const std::vector<Address>& mine) {
  const auto is_near = [&](const Address& address) {
    return !address.is_loopback() &&
           std::any_of(mine.begin(), mine.end(), [&](const Address& own) {
             return share_network(address, own);
           });
  };
  std::stable_partition(theirs.begin(), theirs.end(), is_near);
  return theirs;
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

Socket connect_within(const Endpoint& endpoint, Deadline deadline, int& error) {
  const SocketName name = name_of(endpoint.address, endpoint.port);
  Socket result = new_socket(name.family(), SOCK_STREAM);
  error = 0;
  if (!result || ::connect(result.fd(), name.get(), name.length) != 0)
    error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (is_ready(result.fd(), POLLOUT, deadline))
      getsockopt(result.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  return error == 0 ? std::move(result) : Socket();
}

std::string peer_text(const Socket& socket) {
  SocketName name;
  if (::getpeername(socket.fd(), name.get(), &name.length) != 0) return "?";
  const auto endpoint = endpoint_of(name.get());
  return endpoint ? text_of(*endpoint) : "?";
}

}  // namespace sheaf::comm
