// Mutual authentication, with an attacker between the two sides who has
// recorded an earlier connection: each message may be changed, replaced by the
// recorded one, by any bytes, or by another message of this connection. A side
// accepts the other only if both belong together and it got all messages as
// they were sent.
// parser: sheaf/comm/network/handshake.cpp
#include "sheaf/comm/network/handshake.hpp"

#include "sheaf/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fixed_random.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;
using sheaf::fuzz::ByteSource;

Party party_from(ByteSource& source) {
  const std::uint8_t choice = source.byte();
  const Key keys[] = {Key(), Key().derive("one"), Key().derive("two")};
  return {.purpose = static_cast<Purpose>(1 + choice / 16 % 3),
          .identity = {.job = choice & 1 ? "job" : "other",
                       .key = keys[choice / 48 % 3],
                       .has_secret = true},
          .rank = choice / 2 % 4,
          .size = 3 + choice / 8 % 2,
          .encrypts = choice / 144 == 1};
}

struct Messages {
  ClientHello hello{};
  ServerHello answer{};
  Mac proof{};
  Mac accepted{};
};

// What the attacker delivers instead of `genuine`.
template <class Message>
Message delivered(ByteSource& source, const Message& genuine,
                  const Message& recorded, const Mac& other) {
  Message result = genuine;
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&result);
  switch (source.byte() % 8) {
    case 5: {
      const std::size_t at = source.below(sizeof result);
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ source.byte());
      break;
    }
    case 6:
      return source.byte() % 2 ? recorded : source.value<Message>();
    case 7:
      std::memcpy(bytes, &other, std::min(sizeof result, sizeof other));
      break;
    default:
      break;
  }
  return result;
}

template <class Message>
bool is_same(const Message& a, const Message& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class Side>
std::optional<SessionKeys> keys_of(const Side& side) {
  try {
    return side.keys();
  } catch (const sheaf::CommError&) {  // a weak key
    return std::nullopt;
  }
}

bool belong_together(const Party& client, const ClientHello& hello,
                     const Party& server) {
  const bool is_rank = client.rank < server.size && client.rank != server.rank;
  return client.purpose == server.purpose &&
         client.identity.job == server.identity.job &&
         client.identity.key.bytes() == server.identity.key.bytes() &&
         client.encrypts == server.encrypts && hello.to == server.rank &&
         (client.purpose == Purpose::kMeeting ||
          (client.size == server.size && is_rank));
}

// Sets the messages that were sent.
void connect(const Party& client_party, const Party& server_party, int peer,
             ByteSource& source, const Messages& recorded, Messages& sent) {
  ClientHandshake client(client_party, peer);
  ServerHandshake server(server_party);
  const bool is_match =
      belong_together(client_party, client.hello(), server_party);
  sent.hello = client.hello();
  const auto hello =
      delivered(source, sent.hello, recorded.hello, recorded.proof);
  const auto from_server = server.answer(hello);
  if (!from_server) return;
  sent.answer = *from_server;
  const auto answer =
      delivered(source, sent.answer, recorded.answer, recorded.accepted);
  std::string why;
  const auto proof_of_client = client.answer(answer, why);
  SHEAF_FUZZ_CHECK(proof_of_client || !why.empty());
  const bool are_hellos_same =
      is_same(hello, sent.hello) && is_same(answer, sent.answer);
  SHEAF_FUZZ_CHECK(proof_of_client.has_value() ==
                   (is_match && are_hellos_same));
  if (proof_of_client) sent.proof = *proof_of_client;
  const auto proof =
      delivered(source, sent.proof, recorded.proof, sent.answer.mac);
  const auto accepted_by_server = server.accept(proof);
  SHEAF_FUZZ_CHECK(accepted_by_server.has_value() ==
                   (is_match && are_hellos_same && is_same(proof, sent.proof)));
  const auto server_keys = keys_of(server);
  if (!accepted_by_server) return;
  sent.accepted = *accepted_by_server;
  const auto accepted =
      delivered(source, sent.accepted, recorded.accepted, sent.proof);
  SHEAF_FUZZ_CHECK(client.is_accepted(accepted) ==
                   is_same(accepted, sent.accepted));
  const auto client_keys = keys_of(client);
  SHEAF_FUZZ_CHECK(client_keys && server_keys &&
                   client_keys->send.bytes() == server_keys->receive.bytes() &&
                   client_keys->receive.bytes() == server_keys->send.bytes());
}

}  // namespace

SHEAF_FUZZ_TARGET(handshake) {
  sheaf::fuzz::fix_random();
  ByteSource source(input);
  const Party client = party_from(source);
  const Party server = party_from(source);
  const int peer = source.byte() % 4;
  Messages recorded;
  ByteSource nothing({});
  connect(client, server, peer, nothing, {}, recorded);
  Messages sent;
  connect(client, server, peer, source, recorded, sent);
  SHEAF_FUZZ_CHECK(text_of(static_cast<Refusal>(source.byte() % 8)) != nullptr);
}
