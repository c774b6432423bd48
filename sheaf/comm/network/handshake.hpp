#pragma once
// Mutual authentication of the two sides of a connection, as messages of fixed
// size. This file only knows bytes: Acceptor and connect_to() transmit them.
//
//   connecting side                     accepting side
//   ClientHello  ─────────────────────►
//                ◄───────────────────── ServerHello: its code of both hellos
//   Mac: its code of both hellos ─────►
//                ◄───────────────────── Mac: the connection is accepted
//
// Each code is an HMAC by the job's key, which is never sent. The hellos
// contain random numbers, so a recorded message is of no use in another
// connection; the codes of the two sides have different labels, so that neither
// can be sent back as the other. The random numbers are public keys (X25519):
// encrypted connections derive their keys from them and from the job's key, so
// that recorded traffic stays secret even if the job's secret becomes known.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "sheaf/comm/network/secret.hpp"

namespace sheaf::comm {

enum class Purpose : std::uint32_t { kMeeting = 1, kTransport, kMonitor };

// One side of a connection.
struct Party {
  Purpose purpose = Purpose::kTransport;
  JobIdentity identity;
  int rank = 0;
  int size = 1;  // number of ranks
  bool encrypts = false;
};

struct ClientHello {
  std::uint64_t magic = 0;  // differs in other byte orders
  std::uint32_t version = 0;
  Purpose purpose{};
  std::array<std::uint8_t, 16> job{};  // hash of the job's name
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t size = 0;
  std::uint32_t encrypts = 0;
  Bytes32 public_key{};
};
static_assert(sizeof(ClientHello) == 80);

// Why the accepting side refuses a hello.
enum class Refusal : std::uint32_t {
  kNone,
  kVersion,
  kJob,
  kSize,
  kRank,
  kEncryption
};

struct ServerHello {
  std::uint64_t magic = 0;
  std::int32_t rank = 0;
  Refusal refusal{};
  Bytes32 public_key{};
  Mac mac{};
};
static_assert(sizeof(ServerHello) == 80);

// Keys of an encrypted connection, one for each direction.
struct SessionKeys {
  Key send;
  Key receive;
};

class ClientHandshake {
 public:
  ClientHandshake(const Party& me, int peer);
  ~ClientHandshake();
  const ClientHello& hello() const { return hello_; }
  // The proof to send; nothing if the other side is not a rank of this job, or
  // refuses: `why` is then the reason.
  std::optional<Mac> answer(const ServerHello& theirs, std::string& why);
  bool is_accepted(const Mac& code) const;
  // Throws CommError if the public key of the other side is weak.
  SessionKeys keys() const;

 private:
  const Party me_;
  ClientHello hello_;
  ServerHello theirs_;
  Bytes32 private_key_;
};

class ServerHandshake {
 public:
  explicit ServerHandshake(const Party& me);
  ~ServerHandshake();
  // The answer to a hello; nothing if the bytes are not a hello of Sheaf. If
  // refusal() is set then, the answer has no code and no key, and the
  // connection must be closed after it.
  std::optional<ServerHello> answer(const ClientHello& theirs);
  // The last message; nothing if the proof is wrong.
  std::optional<Mac> accept(const Mac& proof) const;
  Refusal refusal() const { return mine_.refusal; }
  // The claimed rank and number of ranks of the other side.
  int peer() const { return theirs_.from; }
  int peer_size() const { return theirs_.size; }
  SessionKeys keys() const;  // throws, too

 private:
  Refusal refusal_of(const ClientHello& theirs) const;

  const Party me_;
  ClientHello theirs_;
  ServerHello mine_;
  Bytes32 private_key_{};
};

// "another job", for messages.
const char* text_of(Refusal refusal);

}  // namespace sheaf::comm
