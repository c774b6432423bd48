#include "sheaf/comm/process/monitor_messages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace sheaf::comm {
namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kNow = 1'000'000;

RankStatus some_status() {
  return {.rank = 3,
          .record = {.call = {.operation = Operation::kReduce, .sequence = 7},
                     .group = 2,
                     .has_ended = true,
                     .start_ns = kNow - 500,
                     .end_ns = kNow - 200}};
}

TEST(MonitorMessages, StatusContainsAges) {
  const auto bytes = encode(some_status(), kNow);
  const auto got = decode_status(bytes, kRanks, /*now_ns=*/2 * kNow);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->rank, 3);
  EXPECT_EQ(got->record.call, some_status().record.call);
  EXPECT_EQ(got->record.start_ns, 2 * kNow - 500);
  EXPECT_EQ(got->record.end_ns, 2 * kNow - 200);
}

// At the time 0, an age is the negative time.
bool is_accepted(const FlightRecord& record, int rank = 3) {
  const auto bytes = encode(RankStatus{rank, record}, /*now_ns=*/0);
  return decode_status(bytes, kRanks, kNow).has_value();
}

TEST(MonitorMessages, AStatusOfAnImpossibleTimeIsRefused) {
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(is_accepted({.call = {}, .start_ns = -5}));
  EXPECT_FALSE(is_accepted({.call = {}, .start_ns = 5}));
  // now - age would overflow.
  EXPECT_FALSE(is_accepted({.call = {}, .start_ns = kLargest}));
  EXPECT_FALSE(is_accepted({.call = {}, .end_ns = kLargest}));
  EXPECT_FALSE(is_accepted({.call = {}, .end_ns = -kLargest}));
}

TEST(MonitorMessages, AStatusOfAnUnknownRankOrOperationIsRefused) {
  EXPECT_FALSE(is_accepted({}, /*rank=*/4));
  EXPECT_FALSE(is_accepted({}, /*rank=*/-1));
  const auto unknown = static_cast<Operation>(200);
  EXPECT_FALSE(is_accepted({.call = {.operation = unknown}}));
}

TEST(MonitorMessages, AStatusOfAnotherSizeIsRefused) {
  auto bytes = encode(some_status(), kNow);
  bytes.push_back({});
  EXPECT_FALSE(decode_status(bytes, kRanks, kNow).has_value());
  bytes.resize(bytes.size() - 2);
  EXPECT_FALSE(decode_status(bytes, kRanks, kNow).has_value());
}

TEST(MonitorMessages, TheTextOfAnAlarmEndsWithinIt) {
  AlarmRecord record{AlarmKind::kMismatch, 1, 5, {}};
  std::memset(record.text, 'x', sizeof record.text);
  const auto got = decode_alarm(bytes_of(record), kRanks);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(std::strlen(got->text), sizeof record.text - 1);
  EXPECT_EQ(got->group, 5);
}

TEST(MonitorMessages, AnAlarmOfNoRankIsRefused) {
  const auto accepts = [](AlarmKind kind, int rank) {
    const AlarmRecord record{kind, rank, -1, ""};
    return decode_alarm(bytes_of(record), kRanks).has_value();
  };
  EXPECT_TRUE(accepts(AlarmKind::kRankDied, 0));
  EXPECT_TRUE(accepts(AlarmKind::kRankDied, 3));
  EXPECT_FALSE(accepts(AlarmKind::kRankDied, -1));
  EXPECT_FALSE(accepts(AlarmKind::kRankDied, 4));
  EXPECT_TRUE(accepts(AlarmKind::kTooMany, -1));
  EXPECT_FALSE(accepts(static_cast<AlarmKind>(4), 0));
}

TEST(MonitorMessages, AnEndHasTheCallsOfValidGroups) {
  const RankEndNews news{1, {{0, 0, 3}, {kPlainCalls, 2, 9}}};
  const auto bytes = encode(news);
  const auto got = decode_end(bytes, kRanks);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->rank, 1);
  ASSERT_EQ(got->calls.size(), 2u);
  EXPECT_EQ(got->calls[1].sequence, 9u);
  EXPECT_FALSE(decode_end(bytes, /*ranks=*/1).has_value());
  EXPECT_FALSE(
      decode_end(std::span(bytes).first(bytes.size() - 1), kRanks).has_value());
  EXPECT_FALSE(decode_end({}, kRanks).has_value());
  for (const int group : {-1, kPlainCalls + 1}) {
    const auto wrong = encode(RankEndNews{1, {{group, 0, 1}}});
    EXPECT_FALSE(decode_end(wrong, kRanks).has_value()) << group;
  }
}

// by_nearness() compares as many bits of them.
TEST(MonitorMessages, AddressesHaveAtMost128Bits) {
  MonitorAddress address;
  address.count = 4;
  address.hosts[0].prefix_bits = 128;
  address.hosts[1].prefix_bits = 129;
  address.hosts[2].prefix_bits = -1;
  EXPECT_EQ(addresses_of(address).size(), 2u);
  address.count = ~std::uint32_t{0};
  EXPECT_EQ(addresses_of(address).size(), MonitorAddress::kMaxAddresses - 2);
}

}  // namespace
}  // namespace sheaf::comm
