// The cards by which ranks learn each other's addresses.
// parser: sheaf/comm/transport/tcp_wire.cpp
#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/meeting.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

SHEAF_FUZZ_TARGET(card) try {
  const std::string text(sheaf::fuzz::text_of(input));
  const sheaf::comm::TcpCard card = sheaf::comm::parse_card(text, 3);
  SHEAF_FUZZ_CHECK(card.port != 0 && !card.addresses.empty());
  const std::string printed = text_of(card);
  SHEAF_FUZZ_CHECK(printed.size() <= sheaf::comm::kMostCardBytes);
  const sheaf::comm::TcpCard again = sheaf::comm::parse_card(printed, 3);
  SHEAF_FUZZ_CHECK(again.port == card.port &&
                   again.addresses == card.addresses);
} catch (const sheaf::CommError&) {
}
