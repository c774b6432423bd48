#include "sheaf/comm/network/handshake.hpp"

#include <sodium.h>

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::uint64_t kMagic = 0x5348454146544332;
constexpr std::uint32_t kVersion = 1;

std::array<std::uint8_t, 16> hash_of_job(const JobIdentity& identity) {
  const Mac full = Key().mac({bytes_of("job"), bytes_of(identity.job)});
  std::array<std::uint8_t, 16> result;
  std::copy_n(full.begin(), result.size(), result.begin());
  return result;
}

// The code by one side, named by `label`, of both hellos.
Mac code_of(const Key& key, std::string_view label, const ClientHello& client,
            ServerHello server) {
  server.mac = {};
  return key.mac({bytes_of(label), bytes_of(client), bytes_of(server)});
}

constexpr std::string_view kServer = "sheaf server";
constexpr std::string_view kClient = "sheaf client";
constexpr std::string_view kAccepted = "sheaf accepted";

void make_key_pair(Bytes32& public_key, Bytes32& private_key) {
  private_key = random_bytes();
  crypto_scalarmult_base(public_key.data(), private_key.data());
}

// The keys for data to the accepting side and to the connecting side.
std::pair<Key, Key> traffic_keys(const Key& key, const Bytes32& private_key,
                                 const Bytes32& their_public_key,
                                 const ClientHello& client,
                                 const ServerHello& server) {
  Bytes32 shared;
  if (crypto_scalarmult(shared.data(), private_key.data(),
                        their_public_key.data()) != 0)
    throw CommError("it sent a weak key for encryption");
  const Key session(key.mac({bytes_of("sheaf session"), bytes_of(shared),
                             bytes_of(client), bytes_of(server)}));
  sodium_memzero(shared.data(), shared.size());
  return {session.derive("to server"), session.derive("to client")};
}

}  // namespace

const char* text_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "none";
    case Refusal::kVersion:
      return "another version of Sheaf";
    case Refusal::kJob:
      return "another job (SHEAF_JOB)";
    case Refusal::kSize:
      return "another number of ranks";
    case Refusal::kRank:
      return "another rank than expected";
    case Refusal::kEncryption:
      return "another setting of SHEAF_ENCRYPT";
  }
  return "an unknown reason";
}

ClientHandshake::ClientHandshake(const Party& me, int peer) : me_(me) {
  hello_ = {.magic = kMagic,
            .version = kVersion,
            .purpose = me.purpose,
            .job = hash_of_job(me.identity),
            .from = me.rank,
            .to = peer,
            .size = me.size,
            .encrypts = me.encrypts,
            .public_key = {}};
  make_key_pair(hello_.public_key, private_key_);
}

ClientHandshake::~ClientHandshake() {
  sodium_memzero(private_key_.data(), private_key_.size());
}

std::optional<Mac> ClientHandshake::answer(const ServerHello& theirs,
                                           std::string& why) {
  theirs_ = theirs;
  const Key& key = me_.identity.key;
  if (theirs.magic != kMagic)
    why = "another program answered";
  else if (theirs.refusal != Refusal::kNone &&
           theirs.refusal <= Refusal::kEncryption)
    why = concat("it belongs to ", text_of(theirs.refusal));
  else if (!are_equal(code_of(key, kServer, hello_, theirs), theirs.mac))
    why = "it has another secret (SHEAF_SECRET)";
  else if (theirs.rank != hello_.to)
    why = concat("rank ", theirs.rank, " answered");
  else
    return code_of(key, kClient, hello_, theirs);
  return std::nullopt;
}

bool ClientHandshake::is_accepted(const Mac& code) const {
  return are_equal(code_of(me_.identity.key, kAccepted, hello_, theirs_), code);
}

SessionKeys ClientHandshake::keys() const {
  const auto [to_server, to_client] = traffic_keys(
      me_.identity.key, private_key_, theirs_.public_key, hello_, theirs_);
  return {.send = to_server, .receive = to_client};
}

ServerHandshake::ServerHandshake(const Party& me) : me_(me) {
  mine_ = {.magic = kMagic,
           .rank = me.rank,
           .refusal = {},
           .public_key = {},
           .mac = {}};
}

ServerHandshake::~ServerHandshake() {
  sodium_memzero(private_key_.data(), private_key_.size());
}

// A meeting accepts other numbers of ranks, and two processes with one rank,
// because it reports the processes that claim them.
Refusal ServerHandshake::refusal_of(const ClientHello& theirs) const {
  if (theirs.version != kVersion) return Refusal::kVersion;
  if (theirs.job != hash_of_job(me_.identity)) return Refusal::kJob;
  if (theirs.encrypts != static_cast<std::uint32_t>(me_.encrypts))
    return Refusal::kEncryption;
  if (theirs.to != me_.rank || theirs.from < 0 || theirs.from >= theirs.size)
    return Refusal::kRank;
  if (me_.purpose == Purpose::kMeeting) return Refusal::kNone;
  if (theirs.size != me_.size) return Refusal::kSize;
  return theirs.from == me_.rank ? Refusal::kRank : Refusal::kNone;
}

std::optional<ServerHello> ServerHandshake::answer(const ClientHello& theirs) {
  if (theirs.magic != kMagic || theirs.purpose != me_.purpose)
    return std::nullopt;
  theirs_ = theirs;
  mine_.refusal = refusal_of(theirs);
  // Everybody can send hellos that are refused, so their answer must be cheap.
  if (mine_.refusal != Refusal::kNone) return mine_;
  make_key_pair(mine_.public_key, private_key_);
  mine_.mac = code_of(me_.identity.key, kServer, theirs_, mine_);
  return mine_;
}

std::optional<Mac> ServerHandshake::accept(const Mac& proof) const {
  const Key& key = me_.identity.key;
  if (mine_.refusal != Refusal::kNone ||
      !are_equal(code_of(key, kClient, theirs_, mine_), proof))
    return std::nullopt;
  return code_of(key, kAccepted, theirs_, mine_);
}

SessionKeys ServerHandshake::keys() const {
  const auto [to_server, to_client] = traffic_keys(
      me_.identity.key, private_key_, theirs_.public_key, theirs_, mine_);
  return {.send = to_client, .receive = to_server};
}

}  // namespace sheaf::comm
