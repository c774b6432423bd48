// Addresses as text, and which of them are near: no system calls.

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/address.hpp"

namespace sheaf::comm {
namespace {

std::string ip_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_v4())
    inet_ntop(AF_INET, address.ip.data() + Address::kV4Prefix.size(), text,
              sizeof text);
  else
    inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

bool share_network(const Address& a, const Address& b) {
  const int bits = std::max(a.prefix_bits, b.prefix_bits);
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((a.ip[byte] ^ b.ip[byte]) >> (7 - bit % 8)) & 1) return false;
  }
  return true;
}

}  // namespace

bool Address::is_v4() const {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), ip.begin());
}

bool Address::is_loopback() const {
  if (is_v4()) return ip[12] == 127;
  return std::all_of(ip.begin(), ip.end() - 1,
                     [](std::uint8_t byte) { return byte == 0; }) &&
         ip[15] == 1;
}

Address source_of(const Address& address) {
  Address result{address.ip, 128};
  if (address.is_v4()) return result;
  result.prefix_bits = 64;
  std::fill(result.ip.begin() + 8, result.ip.end(), std::uint8_t{0});
  return result;
}

std::string text_of(const Address& address) {
  return concat(
      ip_text(address), "/",
      address.prefix_bits - (address.is_v4() ? Address::kV4PrefixBits : 0));
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos || text.find('\0') != text.npos) return std::nullopt;
  const std::string ip(text.substr(0, slash));
  const bool is_v4 = ip.find(':') == ip.npos;
  Address result;
  if (is_v4)
    std::copy(Address::kV4Prefix.begin(), Address::kV4Prefix.end(),
              result.ip.begin());
  if (inet_pton(is_v4 ? AF_INET : AF_INET6, ip.c_str(),
                result.ip.data() + (is_v4 ? Address::kV4Prefix.size() : 0)) !=
      1)
    return std::nullopt;
  int bits = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || at != end || bits < 0 ||
      bits > (is_v4 ? 32 : 128))
    return std::nullopt;
  result.prefix_bits = bits + (is_v4 ? Address::kV4PrefixBits : 0);
  // As an IPv4 address it would have a negative number of network bits.
  if (result.is_v4() && result.prefix_bits < Address::kV4PrefixBits)
    return std::nullopt;
  return result;
}

std::string text_of(const Endpoint& endpoint) {
  const std::string ip = ip_text(endpoint.address);
  return endpoint.address.is_v4() ? concat(ip, ":", endpoint.port)
                                  : concat("[", ip, "]:", endpoint.port);
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

}  // namespace sheaf::comm
