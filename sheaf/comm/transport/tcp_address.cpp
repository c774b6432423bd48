// Lists the addresses of this host, and formats and parses address cards.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/transport/tcp_socket.hpp"

namespace sheaf::comm {
namespace {

constexpr const char* kCardMark = "sheaf-tcp-1";

std::uint32_t ip_of(const sockaddr* name) {
  return reinterpret_cast<const sockaddr_in*>(name)->sin_addr.s_addr;
}

Address parse_address(const std::string& text) {
  const std::size_t slash = text.find('/');
  in_addr ip{};
  if (slash == std::string::npos ||
      inet_pton(AF_INET, text.substr(0, slash).c_str(), &ip) != 1)
    return {};
  const int bits = std::clamp(std::atoi(text.c_str() + slash + 1), 0, 32);
  const std::uint64_t all = 0xffffffff;
  return {ip.s_addr, htonl(static_cast<std::uint32_t>(all << (32 - bits)))};
}

bool share_network(const Address& a, const Address& b) {
  return ((a.ip ^ b.ip) & a.mask & b.mask) == 0;
}

bool is_loopback(const Address& address) {
  return (ntohl(address.ip) >> 24) == 127;
}

}  // namespace

std::string text_of(const Address& address) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.ip, text, sizeof text);
  return concat(text, "/", std::popcount(address.mask));
}

std::string text_of(const TcpCard& card) {
  std::string text = concat(kCardMark, " ", card.port, " ", card.token);
  for (const Address& address : card.addresses) text += " " + text_of(address);
  return text;
}

TcpCard parse_card(const std::string& text, int rank) {
  std::istringstream in(text);
  std::string mark;
  TcpCard card;
  in >> mark >> card.port >> card.token;
  for (std::string address; in >> address;)
    card.addresses.push_back(parse_address(address));
  if (mark != kCardMark || card.port == 0 || card.addresses.empty())
    throw CommError(concat("rank ", rank, " sent '", text.substr(0, 80),
                           "', which is not a valid address; all ranks "
                           "must run the same version of Sheaf"));
  return card;
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
      if (!it->ifa_addr || it->ifa_addr->sa_family != AF_INET) continue;
      if (!(it->ifa_flags & IFF_UP)) continue;
      names.insert(it->ifa_name);
      if (loopback != static_cast<bool>(it->ifa_flags & IFF_LOOPBACK)) continue;
      if (interface.empty() || interface == it->ifa_name)
        result.push_back({ip_of(it->ifa_addr), ip_of(it->ifa_netmask)});
    }
  SHEAF_CHECK(!result.empty(), "SHEAF_INTERFACE=", interface,
              " is not an interface of this host with an IPv4 address; use one "
              "of: ",
              join(std::vector<std::string>(names.begin(), names.end()), ", "));
  return result;
}

std::vector<Address> by_nearness(std::vector<Address> theirs,
                                 const std::vector<Address>& mine) {
  const auto is_near = [&](const Address& address) {
    return !is_loopback(address) &&
           std::any_of(mine.begin(), mine.end(), [&](const Address& own) {
             return share_network(address, own);
           });
  };
  std::stable_partition(theirs.begin(), theirs.end(), is_near);
  return theirs;
}

}  // namespace sheaf::comm
