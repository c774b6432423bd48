#include "sheaf/comm/process/mailroom.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/support/tcp_ranks.hpp"

namespace sheaf::comm {
namespace {

LetterHead head(int source, int tag, std::size_t count,
                std::uint32_t group = 0) {
  return {.group = group,
          .source = source,
          .tag = tag,
          .enclosure = 0,
          .count = count,
          .dtype = DType::kI32};
}

// Two ranks that exchange letters in memory.
class TwoRooms : public testing::Test {
 protected:
  void send(const LetterHead& letter, const std::vector<int>& data) {
    auto out = sender_.send(/*peer=*/1, letter, data.data());
    EXPECT_TRUE(sender_.test(*out));
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(2);
  Mailroom sender_{*transports_[0]};
  Mailroom receiver_{*transports_[1]};
};

TEST_F(TwoRooms, AReceiveWaitsForItsLetter) {
  int data = 0;
  const auto receipt = receiver_.receive(head(0, 5, 1), &data);
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 4, 1), {40});
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 5, 1), {50});
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(data, 50);
  EXPECT_EQ(receipt->got.source, 0);
}

TEST_F(TwoRooms, ALetterWaitsForItsReceive) {
  send(head(0, 5, 1), {50});
  send(head(0, 4, 1), {40});
  int data = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 4, 1), &data)));
  EXPECT_EQ(data, 40);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(kAnySender, 5, 1), &data)));
  EXPECT_EQ(data, 50);
}

// The first receive posted gets the first message sent, whichever is tested
// first.
TEST_F(TwoRooms, MatchesInOrder) {
  int first = 0;
  int second = 0;
  const auto one = receiver_.receive(head(kAnySender, 0, 1), &first);
  const auto two = receiver_.receive(head(0, 0, 1), &second);
  send(head(0, 0, 1), {1});
  send(head(0, 0, 1), {2});
  EXPECT_TRUE(receiver_.test(*two));
  EXPECT_TRUE(receiver_.test(*one));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(TwoRooms, KeepsGroupsApart) {
  int data = 0;
  const auto receipt = receiver_.receive(head(0, 0, 1, /*group=*/3), &data);
  send(head(0, 0, 1, /*group=*/2), {2});
  EXPECT_FALSE(receiver_.test(*receipt));
  send(head(0, 0, 1, /*group=*/3), {3});
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(data, 3);
}

TEST_F(TwoRooms, LargeContentsFollowTheirLetters) {
  const std::vector<int> a(5000, 1);
  const std::vector<int> b(5000, 2);
  send(head(0, 1, a.size()), a);
  send(head(0, 2, b.size()), b);
  std::vector<int> data(5000);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 2, 5000), data.data())));
  EXPECT_EQ(data, b);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 1, 5000), data.data())));
  EXPECT_EQ(data, a);
}

TEST_F(TwoRooms, ALetterThatDoesNotFitIsAnError) {
  send(head(0, 0, 2), {1, 2});
  std::vector<int> data(3);
  const auto receipt = receiver_.receive(head(0, 0, 3), data.data());
  EXPECT_THROW(receiver_.test(*receipt), MismatchError);
  EXPECT_EQ(data, std::vector<int>(3));
}

TEST_F(TwoRooms, AForgottenReceiveTakesNothing) {
  int data = 0;
  const auto forgotten = receiver_.receive(head(0, 0, 1), &data);
  receiver_.forget(forgotten);
  send(head(0, 0, 1), {7});
  int other = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 0, 1), &other)));
  EXPECT_EQ(data, 0);
  EXPECT_EQ(other, 7);
}

// Also letters that arrive after its end.
TEST_F(TwoRooms, LettersOfAnEndedGroupAreDiscarded) {
  receiver_.open_group(0);
  receiver_.open_group(1);
  const std::vector<int> large(5000, 9);
  send(head(0, 0, 1, /*group=*/1), {1});
  send(head(0, 0, 5000, /*group=*/1), large);
  send(head(0, 0, 1, /*group=*/0), {2});
  EXPECT_EQ(receiver_.unclaimed_count(), 3u);
  receiver_.close_group(1);
  EXPECT_EQ(receiver_.unclaimed_count(), 1u);
  send(head(0, 0, 1, /*group=*/1), {3});
  send(head(0, 0, 5000, /*group=*/1), large);
  EXPECT_EQ(receiver_.unclaimed_count(), 1u);
  EXPECT_FALSE(receiver_.is_busy());
  int data = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 0, 1, 0), &data)));
  EXPECT_EQ(data, 2);
}

// Ranks join a new group one after the other.
TEST_F(TwoRooms, LettersOfAGroupToComeAreKept) {
  receiver_.open_group(0);
  {
    const Mailroom::FutureGroup first(receiver_);
    const Mailroom::FutureGroup second(receiver_);  // by another thread
    EXPECT_EQ(first.serial(), 1u);
    receiver_.open_group(5);
    send(head(0, 0, 1, /*group=*/3), {3});
    EXPECT_EQ(receiver_.unclaimed_count(), 1u);
    receiver_.open_group(3);
  }
  int data = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 0, 1, 3), &data)));
  EXPECT_EQ(data, 3);
  EXPECT_EQ(Mailroom::FutureGroup(receiver_).serial(), 6u);
  receiver_.close_group(3);
  send(head(0, 0, 1, /*group=*/3), {4});
  EXPECT_EQ(receiver_.unclaimed_count(), 0u);
}

// Delays the completion of enclosures.
class SlowTransport final : public Transport {
 public:
  explicit SlowTransport(Transport& fast) : fast_(fast) {}
  int rank() const override { return fast_.rank(); }
  int size() const override { return fast_.size(); }
  std::string name() const override { return "slow"; }
  Request send(int peer, Tag tag, const void* data,
               std::size_t bytes) override {
    if (is_letter(tag)) return fast_.send(peer, tag, data, bytes);
    sends_.push_back({peer, tag, data, bytes});
    return Request(kSend);
  }
  Request receive(int peer, Tag tag, void* data, std::size_t bytes) override {
    Request request = fast_.receive(peer, tag, data, bytes);
    if (!is_letter(tag)) slow_ = request.handle();
    return request;
  }
  bool test(Request& request) override {
    if (!request) return true;
    if (request.handle() == kSend) {
      if (!is_open) return false;
      for (const auto& s : sends_) fast_.send(s.peer, s.tag, s.data, s.bytes);
      sends_.clear();
      request.clear();
      return true;
    }
    return (is_open || request.handle() != slow_) && fast_.test(request);
  }
  void abandon(Request& request) noexcept override { fast_.abandon(request); }
  std::optional<Arrived> probe(Tag tag, std::span<const int> except) override {
    return fast_.probe(tag, except);
  }

  bool is_open = false;

 private:
  static constexpr std::uint64_t kSend = 1;
  static bool is_letter(Tag tag) {
    return tag >> 25 == static_cast<Tag>(TagKind::kLetter);
  }
  struct Held {
    int peer;
    Tag tag;
    const void* data;
    std::size_t bytes;
  };
  Transport& fast_;
  std::vector<Held> sends_;
  std::uint64_t slow_ = 0;
};

// The memory of abandoned messages.
class SlowRooms : public testing::Test {
 protected:
  using Memory = std::shared_ptr<std::vector<int>>;
  const LetterHead head_ = head(0, 0, 5000);
  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(2);
  SlowTransport slow_sender_{*transports_[0]};
  SlowTransport slow_receiver_{*transports_[1]};
  Mailroom sender_{slow_sender_};
  Mailroom receiver_{slow_receiver_};
};

TEST_F(SlowRooms, ASendKeepsItsMemoryUntilItHasLeft) {
  auto memory = std::make_shared<std::vector<int>>(5000, 9);
  const std::weak_ptr<std::vector<int>> watched = memory;
  auto out = sender_.send(1, head_, memory->data());
  sender_.adopt(std::move(out), std::move(memory));
  sender_.progress();
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(sender_.is_busy());
  slow_sender_.is_open = slow_receiver_.is_open = true;
  sender_.progress();
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(sender_.is_busy());
  std::vector<int> data(5000);
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head_, data.data())));
  EXPECT_EQ(data, std::vector<int>(5000, 9));
}

TEST_F(SlowRooms, AReceiveKeepsItsMemoryUntilItHasCome) {
  slow_sender_.is_open = true;
  const std::vector<int> sent(5000, 9);
  EXPECT_TRUE(sender_.test(*sender_.send(1, head_, sent.data())));
  auto memory = std::make_shared<std::vector<int>>(5000);
  const std::weak_ptr<std::vector<int>> watched = memory;
  auto receipt = receiver_.receive(head_, memory->data());
  EXPECT_FALSE(receiver_.test(*receipt));  // matched, and in transit
  receiver_.forget(receipt, std::move(memory));
  receipt.reset();
  receiver_.progress();
  EXPECT_FALSE(watched.expired());
  slow_receiver_.is_open = true;
  receiver_.progress();
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(receiver_.is_busy());
}

TEST_F(SlowRooms, AReceiveThatWasNotMatchedKeepsNothing) {
  auto memory = std::make_shared<std::vector<int>>(5000);
  const std::weak_ptr<std::vector<int>> watched = memory;
  auto receipt = receiver_.receive(head_, memory->data());
  receiver_.forget(receipt, std::move(memory));
  EXPECT_TRUE(watched.expired());
}

// Announces letters of rank 0 whose data comes only when it is released.
class LateTransport final : public Transport {
 public:
  explicit LateTransport(Transport& other) : other_(other) {}
  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  std::string name() const override { return "late"; }
  Request send(int peer, Tag tag, const void* data,
               std::size_t bytes) override {
    return other_.send(peer, tag, data, bytes);
  }
  Request receive(int peer, Tag tag, void* data, std::size_t bytes) override {
    Request request = other_.receive(peer, tag, data, bytes);
    if (peer == 0) late_ = request.handle();
    return request;
  }
  bool test(Request& request) override {
    if (!request || request.handle() != late_) return other_.test(request);
    if (++tests_ == 1000) throw TransportError("tested without pause");
    if (is_lost) {
      late_ = 0;
      other_.abandon(request);
      throw TransportError("rank 0 is gone");
    }
    if (!is_released) return false;
    late_ = 0;
    return other_.test(request);
  }
  void abandon(Request& request) noexcept override { other_.abandon(request); }
  std::optional<Arrived> probe(Tag tag, std::span<const int> except) override {
    return other_.probe(tag, except);
  }
  bool has_late_receive() const { return late_ != 0; }

  bool is_released = false;
  bool is_lost = false;

 private:
  Transport& other_;
  std::uint64_t late_ = 0;
  int tests_ = 0;
};

// Ranks 0 and 1 send to rank 2.
class LateRooms : public testing::Test {
 protected:
  void send(Mailroom& from, const LetterHead& letter, int value) {
    EXPECT_TRUE(from.test(*from.send(/*peer=*/2, letter, &value)));
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(3);
  LateTransport late_{*transports_[2]};
  Mailroom late_sender_{*transports_[0]};
  Mailroom other_sender_{*transports_[1]};
  Mailroom receiver_{late_};
};

TEST_F(LateRooms, ALateLetterDelaysNeitherTheCallerNorOtherPeers) {
  int first = 0;
  int second = 0;
  int other = 0;
  const auto receipt = receiver_.receive(head(0, 0, 1), &first);
  const auto next = receiver_.receive(head(0, 0, 1), &second);
  const auto of_other = receiver_.receive(head(1, 0, 1), &other);
  send(late_sender_, head(0, 0, 1), 10);
  send(late_sender_, head(0, 0, 1), 11);
  EXPECT_FALSE(receiver_.test(*receipt));
  EXPECT_TRUE(late_.has_late_receive());
  send(other_sender_, head(1, 0, 1), 20);
  EXPECT_TRUE(receiver_.test(*of_other));
  EXPECT_EQ(other, 20);
  EXPECT_FALSE(receiver_.test(*receipt));
  EXPECT_FALSE(receiver_.test(*next));
  late_.is_released = true;
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(first, 10);
  EXPECT_TRUE(receiver_.test(*next));
  EXPECT_EQ(second, 11);
}

// Its sender has died, for example. Later letters do not take its place.
TEST_F(LateRooms, ALostLetterFailsOnlyReceivesOfItsPeer) {
  receiver_.open_group(0, {0, 1, 2});
  int data = 0;
  int other = 0;
  const auto receipt = receiver_.receive(head(0, 0, 1), &data);
  const auto any = receiver_.receive(head(kAnySender, 5, 1), &data);
  const auto of_other = receiver_.receive(head(1, 0, 1), &other);
  send(late_sender_, head(0, 0, 1), 10);
  EXPECT_FALSE(receiver_.test(*receipt));
  send(late_sender_, head(0, 0, 1), 11);
  late_.is_lost = true;
  EXPECT_NO_THROW(receiver_.progress());
  EXPECT_FALSE(receiver_.test(*of_other));
  send(other_sender_, head(1, 0, 1), 20);
  EXPECT_TRUE(receiver_.test(*of_other));
  EXPECT_EQ(other, 20);
  EXPECT_THROW(receiver_.test(*receipt), TransportError);
  EXPECT_THROW(receiver_.test(*any), TransportError);
}

TEST_F(LateRooms, TheEndAbandonsALateLetter) {
  send(late_sender_, head(0, 0, 1), 10);
  receiver_.progress();
  EXPECT_TRUE(late_.has_late_receive());
  receiver_.end();  // frees the request, as LeakSanitizer checks
}

// Ranks 0 and 1 send to rank 2, which keeps few unclaimed letters.
class CrampedRoom : public testing::Test {
 protected:
  static constexpr std::size_t kMost = 8;  // letters without contents

  void send(Mailroom& from, const LetterHead& letter, int value) {
    EXPECT_TRUE(from.test(*from.send(/*peer=*/2, letter, &value)));
  }
  // Letters of all tags from 0 to 99.
  void flood(std::uint32_t group = 0) {
    for (int tag = 0; tag < 100; ++tag)
      send(busy_, head(0, tag, 1, group), tag * 10);
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(3);
  Mailroom busy_{*transports_[0]};
  Mailroom other_{*transports_[1]};
  Mailroom receiver_{*transports_[2], kMost* kLetterCost};
};

TEST_F(CrampedRoom, KeepsFewLettersThatNobodyReceives) {
  receiver_.open_group(0, {0, 1, 2});
  flood();
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
  // Nor while it receives from another peer.
  int data = 0;
  const auto receipt = receiver_.receive(head(1, 5, 1), &data);
  EXPECT_FALSE(receiver_.test(*receipt));
  send(other_, head(1, 5, 1), 7);
  EXPECT_TRUE(receiver_.test(*receipt));
  EXPECT_EQ(data, 7);
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
}

TEST_F(CrampedRoom, KeepsTheLettersBeforeAnAwaitedOne) {
  receiver_.open_group(0, {0, 1, 2});
  flood();
  flood();
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
  for (int tag = 99; tag >= 0; --tag) {
    int data = 0;
    const int source = tag % 2 ? 0 : kAnySender;
    const auto receipt = receiver_.receive(head(source, tag, 1), &data);
    EXPECT_TRUE(receiver_.test(*receipt));
    EXPECT_EQ(data, tag * 10);
  }
  // Those of the second flood are fetched when there is room.
  int data = 0;
  EXPECT_TRUE(receiver_.test(*receiver_.receive(head(0, 99, 1), &data)));
}

TEST_F(CrampedRoom, KnowsWhichPeersAReceiveIsFor) {
  receiver_.open_group(0, {0, 1, 2});
  receiver_.open_group(1, {2, 1});  // peer 1 is rank 1, peer 0 no member
  flood();
  int data = 0;
  const auto other =
      receiver_.receive(head(kAnySender, 100, 1, /*group=*/1), &data);
  EXPECT_FALSE(receiver_.test(*other));
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
  const auto any = receiver_.receive(head(kAnySender, 100, 1), &data);
  EXPECT_FALSE(receiver_.test(*any));
  EXPECT_EQ(receiver_.unclaimed_count(), 100u);
  receiver_.forget(any);
  flood();
  EXPECT_EQ(receiver_.unclaimed_count(), 100u);
}

TEST_F(CrampedRoom, HasRoomAgainWhenAGroupEnds) {
  receiver_.open_group(0);
  receiver_.open_group(1);
  flood(/*group=*/1);
  send(busy_, head(0, 0, 1), 5);
  EXPECT_LE(receiver_.unclaimed_count(), kMost);
  receiver_.close_group(1);
  EXPECT_EQ(receiver_.unclaimed_count(), 1u);
}

// A rank whose program has ended still answers whether a message may come.
TEST_F(CrampedRoom, ReadsRequestsAtTheEndOfTheProgram) {
  flood();
  int data = 0;
  const auto receipt = busy_.receive(head(2, 0, 1), &data);
  EXPECT_FALSE(busy_.can_never_arrive(*receipt, 2));
  receiver_.progress();
  EXPECT_FALSE(busy_.can_never_arrive(*receipt, 2));
  receiver_.stop_keeping();
  EXPECT_EQ(receiver_.unclaimed_count(), 0u);
  EXPECT_TRUE(busy_.can_never_arrive(*receipt, 2));
}

// Both ranks send more than the other one buffers before they receive, and
// receive in the opposite order.
TEST(CrampedTcpRooms, ManyMessagesBothWaysArrive) {
  constexpr int kMany = 70;
  constexpr std::size_t kLarge = 300'000;  // elements: more than 1 MiB
  const auto count = [](int i) { return i % 2 ? kLarge : std::size_t{3}; };
  test::run_transports(2, [&](auto& transport) {
    const int me = transport->rank();
    const int peer = 1 - me;
    Mailroom room(*transport, /*most_unclaimed_bytes=*/1000);
    std::vector<int> sent(kLarge + kMany);
    std::iota(sent.begin(), sent.end(), me);
    std::vector<std::unique_ptr<Mailroom::Outgoing>> out;
    for (int i = 0; i < 2 * kMany; ++i)
      out.push_back(
          room.send(peer, head(me, i, count(i)), sent.data() + i / 2));
    for (int i = 2 * kMany - 1; i >= 0; --i) {
      std::vector<int> expected(count(i));
      std::iota(expected.begin(), expected.end(), peer + i / 2);
      std::vector<int> got(count(i));
      const auto receipt = room.receive(head(peer, i, count(i)), got.data());
      while (!room.test(*receipt)) std::this_thread::yield();
      EXPECT_EQ(got, expected) << i;
    }
    for (auto& one : out)
      while (!room.test(*one)) std::this_thread::yield();
    room.end();
    transport->finalize(true);
  });
}

// Rank 0 has to ask before it sends its letter, and then does something else.
TEST(LateTcpRooms, ASenderThatComputesDelaysOnlyItself) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::size_t kCount = kUnexpectedBytes / kBytes;
  constexpr Tag kFiller = make_tag(TagKind::kData, 0);
  constexpr Tag kMarker = make_tag(TagKind::kData, 1);
  std::latch must_ask(1);
  std::latch has_asked(1);
  std::latch was_delayed(1);
  test::run_transports(3, [&](auto& transport) {
    const auto finish = [&](Request request) {
      while (!transport->test(request)) std::this_thread::yield();
    };
    Mailroom room(*transport);
    const int me = transport->rank();
    const int value = me * 10;
    std::vector<std::byte> filler(kBytes);
    if (me == 2) {
      int first = -1;
      int other = -1;
      const auto late = room.receive(head(0, 0, 1), &first);
      const auto soon = room.receive(head(1, 0, 1), &other);
      std::byte marker{};
      finish(transport->receive(0, kMarker, &marker, 1));
      must_ask.count_down();
      while (!transport->probe(make_tag(TagKind::kLetter, 0))) {
      }
      has_asked.count_down();
      while (!room.test(*soon)) std::this_thread::yield();
      EXPECT_EQ(other, 10);
      was_delayed.count_down();
      while (!room.test(*late)) std::this_thread::yield();
      EXPECT_EQ(first, 0);
      for (std::size_t i = 0; i < kCount; ++i)
        finish(transport->receive(0, kFiller, filler.data(), kBytes));
    } else {
      if (me == 0) {
        for (std::size_t i = 0; i < kCount; ++i)
          finish(transport->send(2, kFiller, filler.data(), kBytes));
        finish(transport->send(2, kMarker, filler.data(), 1));
        must_ask.wait();
        transport->progress();  // reads the answer
      } else {
        has_asked.wait();
      }
      const auto out = room.send(2, head(me, 0, 1), &value);
      if (me == 0) was_delayed.wait();
      while (!room.test(*out)) std::this_thread::yield();
    }
    transport->finalize(true);
  });
}

TEST_F(TwoRooms, AnAdoptedMessageStillArrives) {
  const std::vector<int> large(5000, 9);
  sender_.adopt(sender_.send(1, head(0, 0, 5000), large.data()));
  std::vector<int> data(5000);
  EXPECT_TRUE(
      receiver_.test(*receiver_.receive(head(0, 0, 5000), data.data())));
  EXPECT_EQ(data, large);
}

}  // namespace
}  // namespace sheaf::comm
