#include "sheaf/comm/network/channel.hpp"

#include <gtest/gtest.h>

#include "tests/comm/network/socket_pair.hpp"

namespace sheaf::comm {
namespace {

using test::wire_pattern;
using test::WireBytes;

SessionKeys keys_of(const char* send, const char* receive) {
  return {.send = Key().derive(send), .receive = Key().derive(receive)};
}

// Two channels that are connected; encrypted or not.
class Channels : public testing::TestWithParam<bool> {
 protected:
  Channels() : Channels(test::socket_pair()) {}

  static bool write(Channel& to, const WireBytes& data, std::size_t& at) {
    iovec parts[2] = {
        {const_cast<std::byte*>(data.data()) + at, (data.size() - at) / 2},
        {const_cast<std::byte*>(data.data()) + at + (data.size() - at) / 2,
         data.size() - at - (data.size() - at) / 2}};
    const ssize_t sent = to.write(parts, 2);
    if (sent < 0) return is_for_later(errno);
    at += static_cast<std::size_t>(sent);
    return true;
  }
  static bool read(Channel& from, WireBytes& data) {
    std::byte bytes[5000];
    iovec parts[2] = {{bytes, 7}, {bytes + 7, sizeof bytes - 7}};
    const ssize_t got = from.read(parts, 2);
    if (got < 0) return is_for_later(errno);
    data.insert(data.end(), bytes, bytes + got);
    return got > 0;
  }

  Channel mine_;
  Channel theirs_;

 private:
  explicit Channels(std::pair<Socket, Socket> ends) {
    if (GetParam()) {
      mine_ = Channel(std::move(ends.first), keys_of("a", "b"));
      theirs_ = Channel(std::move(ends.second), keys_of("b", "a"));
    } else {
      mine_ = Channel(std::move(ends.first));
      theirs_ = Channel(std::move(ends.second));
    }
  }
};

TEST_P(Channels, CarryBytesInBothDirections) {
  const WireBytes there = wire_pattern(1'234'567);
  const WireBytes back = wire_pattern(345'678);
  WireBytes got_there;
  WireBytes got_back;
  std::size_t sent_there = 0;
  std::size_t sent_back = 0;
  while (got_there.size() < there.size() || got_back.size() < back.size()) {
    if (sent_there < there.size()) ASSERT_TRUE(write(mine_, there, sent_there));
    if (sent_back < back.size()) ASSERT_TRUE(write(theirs_, back, sent_back));
    ASSERT_TRUE(mine_.flush() && theirs_.flush());
    ASSERT_TRUE(read(theirs_, got_there));
    ASSERT_TRUE(read(mine_, got_back));
  }
  EXPECT_EQ(got_there, there);
  EXPECT_EQ(got_back, back);
  EXPECT_FALSE(mine_.has_unsent() || theirs_.has_unsent());
}

TEST_P(Channels, BeginWithTheEndOfTheHandshake) {
  const std::uint8_t first[] = {1, 2, 3};
  mine_.begin_with(first);
  EXPECT_TRUE(mine_.has_unsent());
  std::size_t at = 0;
  ASSERT_TRUE(write(mine_, wire_pattern(10), at));
  std::uint8_t got[3] = {};
  ASSERT_EQ(::recv(theirs_.fd(), got, sizeof got, 0), ssize_t{sizeof got});
  EXPECT_EQ(got[0] + got[1] + got[2], 6);
  WireBytes data;
  ASSERT_TRUE(read(theirs_, data));
  EXPECT_EQ(data, wire_pattern(10));
}

TEST_P(Channels, ReportTheEndOfTheStream) {
  std::size_t at = 0;
  ASSERT_TRUE(write(mine_, wire_pattern(10), at));
  mine_.close();
  EXPECT_FALSE(mine_);
  WireBytes data;
  ASSERT_TRUE(read(theirs_, data));
  EXPECT_EQ(data, wire_pattern(10));
  EXPECT_FALSE(read(theirs_, data));
}

INSTANTIATE_TEST_SUITE_P(, Channels, testing::Bool(), [](const auto& info) {
  return info.param ? "Encrypted" : "Plain";
});

// The bytes that an encrypting channel sends for some messages.
WireBytes sealed_bytes(const std::vector<WireBytes>& messages) {
  auto [mine, theirs] = test::socket_pair();
  Channel channel(std::move(mine), keys_of("a", "b"));
  for (const WireBytes& message : messages) {
    const iovec part{const_cast<std::byte*>(message.data()), message.size()};
    EXPECT_EQ(channel.write(&part, 1), static_cast<ssize_t>(message.size()));
  }
  WireBytes bytes(1 << 16);
  bytes.resize(static_cast<std::size_t>(
      ::recv(theirs.fd(), bytes.data(), bytes.size(), 0)));
  return bytes;
}

// What a channel reads from them: all bytes until nothing more comes; nothing
// if it reports damaged data.
std::optional<WireBytes> opened(const WireBytes& sealed) {
  auto [mine, theirs] = test::socket_pair();
  EXPECT_EQ(::send(theirs.fd(), sealed.data(), sealed.size(), 0),
            static_cast<ssize_t>(sealed.size()));
  Channel channel(std::move(mine), keys_of("b", "a"));
  WireBytes all;
  for (;;) {
    std::byte bytes[1000];
    const iovec part{bytes, sizeof bytes};
    const ssize_t got = channel.read(&part, 1);
    if (got < 0 && errno == EBADMSG) return std::nullopt;
    if (got < 0) return all;
    all.insert(all.end(), bytes, bytes + got);
  }
}

TEST(EncryptedChannel, HidesWhatItCarries) {
  const WireBytes secret(200, std::byte{'s'});
  const WireBytes sealed = sealed_bytes({secret});
  EXPECT_EQ(std::search_n(sealed.begin(), sealed.end(), 8, std::byte{'s'}),
            sealed.end());
  EXPECT_EQ(opened(sealed), secret);
}

TEST(EncryptedChannel, DetectsEveryChange) {
  const WireBytes sealed = sealed_bytes({wire_pattern(20), wire_pattern(30)});
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    WireBytes changed = sealed;
    changed[i] ^= std::byte{0x80};
    const auto got = opened(changed);
    // After a length that has grown, the channel waits for more bytes.
    EXPECT_TRUE(!got || got->empty() || *got == wire_pattern(20)) << i;
  }
}

TEST(EncryptedChannel, DetectsRecordsThatAreRemovedOrRepeated) {
  const WireBytes one = sealed_bytes({wire_pattern(20)});
  const WireBytes both = sealed_bytes({wire_pattern(20), wire_pattern(20)});
  const auto record = static_cast<long>(both.size() - one.size());
  WireBytes removed = both;
  removed.erase(removed.end() - 2 * record, removed.end() - record);
  EXPECT_FALSE(opened(removed));
  WireBytes repeated = both;
  repeated.insert(repeated.end(), both.end() - record, both.end());
  EXPECT_FALSE(opened(repeated));
}

TEST(EncryptedChannel, RefusesRecordsOfImpossibleLengths) {
  const WireBytes sealed = sealed_bytes({wire_pattern(20)});
  for (const std::uint32_t length : {0u, 17u, 70'000u, 0xffffffffu}) {
    WireBytes changed = sealed;
    std::memcpy(changed.data() + 24, &length, sizeof length);
    EXPECT_FALSE(opened(changed)) << length;
  }
}

}  // namespace
}  // namespace sheaf::comm
