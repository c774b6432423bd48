#include "sheaf/comm/transport/tcp_wire.hpp"

#include <algorithm>
#include <charconv>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::comm {
namespace {

constexpr std::string_view kCardMark = "sheaf-tcp-2";

bool parse_words(const std::vector<std::string_view>& parts, TcpCard& card) {
  if (parts.size() < 3 || parts.size() > 2 + TcpCard::kMostAddresses ||
      parts[0] != kCardMark)
    return false;
  const char* const end = parts[1].data() + parts[1].size();
  const auto [at, error] = std::from_chars(parts[1].data(), end, card.port);
  if (error != std::errc() || at != end || card.port == 0) return false;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    const auto address = parse_address(parts[i]);
    if (!address) return false;
    card.addresses.push_back(*address);
  }
  return true;
}

}  // namespace

std::string text_of(const TcpCard& card) {
  std::string text = concat(kCardMark, " ", card.port);
  const std::size_t count =
      std::min(card.addresses.size(), TcpCard::kMostAddresses);
  for (std::size_t i = 0; i < count; ++i)
    text += " " + text_of(card.addresses[i]);
  return text;
}

TcpCard parse_card(const std::string& text, int rank) {
  TcpCard card;
  if (!parse_words(words(text), card))
    throw CommError(concat("rank ", rank, " sent '", text.substr(0, 80),
                           "', which is not a valid address; all ranks "
                           "must run the same version of Sheaf"));
  return card;
}

}  // namespace sheaf::comm
