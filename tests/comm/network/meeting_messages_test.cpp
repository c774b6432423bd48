#include "sheaf/comm/network/meeting_messages.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

std::span<const std::byte> as_payload(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(MeetingMessages, CardsAreReadAsWritten) {
  const AllCards all{.random = {1, 2, 3},
                     .cards = {"zero", "", std::string(kMostCardBytes, 'x')}};
  const std::string bytes = encode(all);
  const auto read = decode_cards(as_payload(bytes), 3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->cards, all.cards);
  EXPECT_EQ(read->random, all.random);
  EXPECT_FALSE(decode_cards(as_payload(bytes), 2));
  EXPECT_FALSE(decode_cards(as_payload(bytes), 4));
}

TEST(MeetingMessages, ACardIsReadAsWritten) {
  const MemberCard mine{"process 1 on a", "line one\nline two"};
  const auto read = decode_card(as_payload(encode(mine)));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->who, mine.who);
  EXPECT_EQ(read->card, mine.card);
  EXPECT_TRUE(
      decode_card(as_payload("me\n" + std::string(kMostCardBytes, 'x'))));
}

TEST(MeetingMessages, ACardThatIsNoneIsRefused) {
  const std::string much(kMostCardBytes + 1, 'x');
  const std::string forged = "\x1b[2Jprocess 1 on a\n";
  for (const std::string& text :
       {std::string(), std::string("no line feed"), "me\n" + much, much + "\n",
        forged, std::string("\0\n", 2)})
    EXPECT_FALSE(decode_card(as_payload(text))) << text;
}

TEST(MeetingMessages, CutCardsAreRefused) {
  const std::string bytes = encode({.random = {}, .cards = {"one", "two"}});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_cards(as_payload(bytes).first(length), 2)) << length;
}

TEST(MeetingMessages, LongCardsAreRefused) {
  const std::string bytes =
      encode({.random = {}, .cards = {std::string(kMostCardBytes + 1, 'x')}});
  EXPECT_FALSE(decode_cards(as_payload(bytes), 1));
}

TEST(MeetingMessages, FailuresKeepTheirKind) {
  const auto fail = [](MeetingFailure kind) {
    throw_failure(as_payload(encode_failure(kind, "why")));
  };
  expect_throws<UsageError>([&] { fail(MeetingFailure::kUsage); }, {"why"});
  expect_throws<TimeoutError>([&] { fail(MeetingFailure::kTimeout); }, {"why"});
  expect_throws<CommError>([&] { fail(MeetingFailure::kComm); }, {"why"});
  EXPECT_THROW(throw_failure(as_payload("")), CommError);
}

TEST(MeetingMessages, TheSessionKeyDependsOnTheSecret) {
  const AllCards all{.random = {1}, .cards = {}};
  const JobIdentity mine{.job = "", .key = Key().derive("a")};
  const JobIdentity other{.job = "", .key = Key().derive("b")};
  EXPECT_EQ(result_of(all, mine).session.bytes(),
            result_of(all, mine).session.bytes());
  EXPECT_NE(result_of(all, mine).session.bytes(),
            result_of(all, other).session.bytes());
}

}  // namespace
}  // namespace sheaf::comm
