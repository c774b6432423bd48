#include "sheaf/comm/network/handshake.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/comm/network/loopback.hpp"

namespace sheaf::comm {
namespace {

using test::identity_with;
using test::party;

// The result of a handshake of two sides, each without the other's objects.
struct Outcome {
  bool is_accepted = false;
  std::string why{};  // of the client
  Refusal refusal{};  // by the server
};

Outcome shake(const Party& client_party, int peer, const Party& server_party) {
  ClientHandshake client(client_party, peer);
  ServerHandshake server(server_party);
  Outcome outcome;
  const auto hello = server.answer(client.hello());
  if (!hello) return outcome;
  outcome.refusal = server.refusal();
  const auto proof = client.answer(*hello, outcome.why);
  if (!proof) return outcome;
  const auto accepted = server.accept(*proof);
  outcome.is_accepted = accepted && client.is_accepted(*accepted);
  return outcome;
}

TEST(Handshake, RanksOfAJobAcceptEachOther) {
  EXPECT_TRUE(shake(party(1, 4), 3, party(3, 4)).is_accepted);
  Party open = party(1, 4);
  open.identity = JobIdentity();  // without a secret
  open.identity.job = "job";
  Party other = party(3, 4);
  other.identity = open.identity;
  EXPECT_TRUE(shake(open, 3, other).is_accepted);
}

TEST(Handshake, BothSidesComputeTheSameKeys) {
  ClientHandshake client(party(0, 2), 1);
  ServerHandshake server(party(1, 2));
  std::string why;
  ASSERT_TRUE(client.answer(*server.answer(client.hello()), why));
  EXPECT_EQ(client.keys().send.bytes(), server.keys().receive.bytes());
  EXPECT_EQ(client.keys().receive.bytes(), server.keys().send.bytes());
  EXPECT_NE(client.keys().send.bytes(), client.keys().receive.bytes());
}

TEST(Handshake, AnotherSecretIsRefused) {
  const Outcome outcome = shake(party(0, 2, "one"), 1, party(1, 2, "another"));
  EXPECT_FALSE(outcome.is_accepted);
  EXPECT_EQ(outcome.why, "it has another secret (SHEAF_SECRET)");
}

TEST(Handshake, AnotherJobIsRefused) {
  Party other = party(1, 2);
  other.identity = identity_with("a test's secret", "another job");
  const Outcome outcome = shake(party(0, 2), 1, other);
  EXPECT_EQ(outcome.refusal, Refusal::kJob);
  EXPECT_EQ(outcome.why, "it belongs to another job (SHEAF_JOB)");
}

TEST(Handshake, OtherRanksAndSizesAreRefused) {
  EXPECT_EQ(shake(party(0, 2), 1, party(1, 3)).refusal, Refusal::kSize);
  EXPECT_EQ(shake(party(0, 3), 2, party(1, 3)).refusal, Refusal::kRank);
  EXPECT_EQ(shake(party(1, 3), 1, party(1, 3)).refusal, Refusal::kRank);
  EXPECT_EQ(shake(party(-1, 3), 1, party(1, 3)).refusal, Refusal::kRank);
  EXPECT_EQ(shake(party(3, 3), 1, party(1, 3)).refusal, Refusal::kRank);
}

// Rank 0 reports other numbers of ranks, but stores cards by rank.
TEST(Handshake, AMeetingRefusesRanksThatCannotExist) {
  Party guest = party(1, 5);
  Party host = party(0, 3);
  guest.purpose = host.purpose = Purpose::kMeeting;
  EXPECT_TRUE(shake(guest, 0, host).is_accepted);
  for (const int rank : {-1, 5, 1 << 30}) {
    guest.rank = rank;
    EXPECT_EQ(shake(guest, 0, host).refusal, Refusal::kRank) << rank;
  }
}

TEST(Handshake, BothSidesEncryptOrNone) {
  Party encrypting = party(0, 2);
  encrypting.encrypts = true;
  EXPECT_EQ(shake(encrypting, 1, party(1, 2)).refusal, Refusal::kEncryption);
  EXPECT_EQ(shake(party(1, 2), 0, encrypting).refusal, Refusal::kEncryption);
}

// Strangers can send hellos that are refused as often as they like.
TEST(Handshake, ARefusalCostsNoCryptography) {
  ServerHandshake server(party(1, 3));
  const auto answer = server.answer(ClientHandshake(party(0, 2), 1).hello());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->refusal, Refusal::kSize);
  EXPECT_EQ(answer->public_key, Bytes32{});
  EXPECT_EQ(answer->mac, Mac{});
}

// A meeting reports ranks and sizes that do not fit itself.
TEST(Handshake, MeetingsAcceptOtherSizes) {
  Party guest = party(7, 8);
  Party host = party(0, 2);
  guest.purpose = host.purpose = Purpose::kMeeting;
  EXPECT_TRUE(shake(guest, 0, host).is_accepted);
}

TEST(Handshake, OtherPurposesAndProgramsGetNoAnswer) {
  Party monitor = party(0, 2);
  monitor.purpose = Purpose::kMonitor;
  EXPECT_FALSE(
      ServerHandshake(party(1, 2)).answer(ClientHandshake(monitor, 1).hello()));
  ClientHello noise;
  std::memset(static_cast<void*>(&noise), 'x', sizeof noise);
  EXPECT_FALSE(ServerHandshake(party(1, 2)).answer(noise));
}

// A stranger who has recorded a connection cannot repeat it.
TEST(Handshake, ARecordedConnectionIsRefused) {
  ClientHandshake client(party(0, 2), 1);
  ServerHandshake server(party(1, 2));
  std::string why;
  const auto proof = client.answer(*server.answer(client.hello()), why);
  ASSERT_TRUE(server.accept(*proof));
  ServerHandshake later(party(1, 2));
  ASSERT_TRUE(later.answer(client.hello()));
  EXPECT_FALSE(later.accept(*proof));
}

// Nor can he let a rank prove itself to itself.
TEST(Handshake, AnAnswerCannotBeSentBack) {
  ServerHandshake server(party(1, 2));
  ClientHello hello = ClientHandshake(party(0, 2), 1).hello();
  const auto answer = server.answer(hello);
  EXPECT_FALSE(server.accept(answer->mac));
}

// Every bit of every message counts.
TEST(Handshake, AChangedMessageIsRefused) {
  const auto flip = [](auto& message, std::size_t byte) {
    reinterpret_cast<unsigned char*>(&message)[byte] ^= 1;
  };
  for (std::size_t byte = 0; byte < sizeof(ClientHello); ++byte) {
    ClientHandshake client(party(0, 2), 1);
    ServerHandshake server(party(1, 2));
    ClientHello hello = client.hello();
    flip(hello, byte);
    std::string why;
    const auto answer = server.answer(hello);
    EXPECT_FALSE(answer && client.answer(*answer, why)) << byte;
  }
  for (std::size_t byte = 0; byte < sizeof(ServerHello); ++byte) {
    ClientHandshake client(party(0, 2), 1);
    ServerHandshake server(party(1, 2));
    auto answer = server.answer(client.hello());
    flip(*answer, byte);
    std::string why;
    EXPECT_FALSE(client.answer(*answer, why)) << byte;
    EXPECT_NE(why, "");
  }
}

}  // namespace
}  // namespace sheaf::comm
