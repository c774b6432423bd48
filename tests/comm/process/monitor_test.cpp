// Monitoring between hosts; here every rank is a host.

#include "sheaf/comm/process/monitor.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <optional>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kArena = std::size_t{64} << 20;

// The objects of one host.
struct Host {
  Host(int rank, int hosts) : memory(kArena) {
    std::vector<std::string> names;
    for (int i = 0; i < hosts; ++i) names.push_back(std::to_string(i));
    world = make_host_map(names, rank);
    memory.connect({memory.name()}, 0);
    memory.make_board(hosts);
  }
  HostMemory memory;
  HostMap world;
  std::optional<Monitor> monitor;
};

// Waits for a condition that must become true, limited by the test's timeout.
template <class Condition>
void await(Condition condition) {
  while (!condition())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class MonitoredHosts : public testing::Test {
 protected:
  void start(int count) {
    for (int rank = 0; rank < count; ++rank)
      hosts_.push_back(std::make_unique<Host>(rank, count));
    Socket listening = listen_for_peers(address_);
    std::vector<std::future<void>> starts;
    for (int rank = 0; rank < count; ++rank)
      starts.push_back(std::async(std::launch::async, [&, rank] {
        Host& host = at(rank);
        host.monitor.emplace(
            host.memory, host.world,
            start_of(rank == 0 ? std::move(listening) : Socket()));
      }));
    for (auto& ready : starts) ready.get();
  }

  MonitorStart start_of(Socket listening) const {
    return {.address = address_,
            .listening = std::move(listening),
            .timeout = std::chrono::seconds(30)};
  }
  Host& at(int rank) { return *hosts_[static_cast<std::size_t>(rank)]; }
  Alarm& alarm(int rank) { return at(rank).memory.alarm(); }
  std::vector<AlarmRecord> records(int rank) {
    std::vector<AlarmRecord> all;
    AlarmReader().for_each_new(
        alarm(rank), [&](const AlarmRecord& record) { all.push_back(record); });
    return all;
  }

  MonitorAddress address_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

TEST_F(MonitoredHosts, HearOfADeathEverywhere) {
  start(3);
  at(2).monitor.reset();  // no good-bye
  for (const int rank : {0, 1}) {
    await([&] { return !records(rank).empty(); });
    EXPECT_EQ(records(rank)[0].kind, AlarmKind::kRankDied);
    EXPECT_EQ(records(rank)[0].rank, 2);
  }
}

TEST_F(MonitoredHosts, HearOfTheDeathOfRankZero) {
  start(3);
  at(0).monitor.reset();
  for (const int rank : {1, 2}) {
    await([&] { return !records(rank).empty(); });
    EXPECT_EQ(records(rank)[0].rank, 0);
  }
}

TEST_F(MonitoredHosts, DoNotTakeAGoodByeForADeath) {
  start(3);
  at(1).monitor->leave();
  at(1).monitor.reset();
  at(2).monitor.reset();  // dies afterwards
  await([&] { return !records(0).empty(); });
  EXPECT_EQ(records(0).size(), 1u);
  EXPECT_EQ(records(0)[0].rank, 2);
}

TEST_F(MonitoredHosts, PassAlarmsOn) {
  start(4);
  alarm(3).raise(AlarmKind::kMismatch, 3, 17, "they disagree");
  for (const int rank : {0, 1, 2}) {
    await([&] { return !records(rank).empty(); });
    EXPECT_EQ(records(rank)[0].kind, AlarmKind::kMismatch);
    EXPECT_EQ(records(rank)[0].group, 17);
    EXPECT_STREQ(records(rank)[0].text, "they disagree");
  }
  EXPECT_EQ(records(3).size(), 1u);
}

TEST_F(MonitoredHosts, ReportTheOperationsOfTheirRanks) {
  start(3);
  at(2).memory.header(0).flight.begin(
      {.operation = Operation::kScatter, .sequence = 8}, 0);
  for (const int rank : {0, 1}) {
    RankHeader& header = at(rank).memory.header(0);
    header.refreshes_wanted.fetch_add(1);
    await([&] { return at(rank).memory.board(2).latest().has_value(); });
    const auto record = at(rank).memory.board(2).latest();
    EXPECT_EQ(record->call.operation, Operation::kScatter);
    EXPECT_EQ(record->call.sequence, 8u);
    EXPECT_FALSE(record->has_ended);
  }
}

TEST_F(MonitoredHosts, ReportHowTheirRanksEnded) {
  start(3);
  RankEnd& end = at(2).memory.header(0).end;
  end.note_call({.group = 5, .serial = 77, .sequence = 12});
  end.note_call({.group = 0, .serial = 0, .sequence = 3});
  end.add_queued(1);
  end.note_end();
  end.note_call({.group = 5, .serial = 77, .sequence = 13});
  end.add_queued(-1);
  for (const int rank : {0, 1}) {
    const RankEnd& heard = at(rank).memory.remote_end(2);
    await([&] { return heard.has_ended(); });
    EXPECT_TRUE(heard.has_made({5, 77, 13}));
    EXPECT_FALSE(heard.has_made({5, 77, 14}));
    EXPECT_TRUE(heard.has_made({5, 78, 1}));  // it had another group then
    EXPECT_TRUE(heard.has_made({0, 0, 3}));
    EXPECT_FALSE(heard.has_made({0, 0, 4}));
    EXPECT_FALSE(at(rank).memory.remote_end(1 - rank).has_ended());
  }
}

TEST_F(MonitoredHosts, TurnStrangersAway) {
  Socket listening = listen_for_peers(address_);
  const Socket stranger = test::connect_to_loopback(address_.port);
  const Socket silent = test::connect_to_loopback(address_.port);
  const char nonsense[128] = "GET / HTTP/1.0\r\n\r\n";
  ASSERT_TRUE(
      write_within(stranger.fd(), nonsense, sizeof nonsense, test::soon()));
  hosts_.push_back(std::make_unique<Host>(0, 2));
  hosts_.push_back(std::make_unique<Host>(1, 2));
  auto hub = std::async(std::launch::async, [&] {
    at(0).monitor.emplace(at(0).memory, at(0).world,
                          start_of(std::move(listening)));
  });
  at(1).monitor.emplace(at(1).memory, at(1).world, start_of(Socket()));
  hub.get();
  alarm(1).raise(AlarmKind::kMismatch, 1, 5, "hello");
  await([&] { return !records(0).empty(); });
  EXPECT_EQ(records(0)[0].group, 5);
}

// It asks again and again, and reads no answer: only alarms are kept for it.
TEST_F(MonitoredHosts, KeepLittleForAPeerThatDoesNotRead) {
  constexpr int kQuestions = 300'000;
  Socket listening = listen_for_peers(address_);
  hosts_.push_back(std::make_unique<Host>(0, 2));
  at(0).memory.header(0).flight.begin({.operation = Operation::kBarrier}, 0);
  auto hub = std::async(std::launch::async, [&] {
    at(0).monitor.emplace(at(0).memory, at(0).world,
                          start_of(std::move(listening)));
  });
  JobIdentity identity = find_identity("");
  identity.key = identity.key.derive("monitor", bytes_of(address_.random));
  Connection connection =
      connect_to({.endpoints = {{test::kLoopback, address_.port}},
                  .me = {.purpose = Purpose::kMonitor,
                         .identity = identity,
                         .rank = 1,
                         .size = 2},
                  .peer = 0,
                  .deadline = test::soon()});
  hub.get();
  const FrameHeader ask{static_cast<std::uint32_t>(MonitorMessage::kAsk), 0};
  const std::vector<FrameHeader> questions(kQuestions, ask);
  ASSERT_TRUE(write_within(connection.channel.fd(), questions.data(),
                           questions.size() * sizeof ask, test::soon()));
  FrameLink link(std::move(connection.channel), kMostMonitorBytes);
  const AlarmRecord last{AlarmKind::kMismatch, 1, 5, "the last question"};
  link.send(static_cast<std::uint32_t>(MonitorMessage::kAlarm), bytes_of(last));
  await([&] { return !records(0).empty(); });
  int answers = 0;
  bool has_alarm = false;
  const auto handle = [&](const FrameBuffer::Frame& frame) {
    const auto kind = static_cast<MonitorMessage>(frame.kind);
    answers += kind == MonitorMessage::kStatus;
    has_alarm = has_alarm || kind == MonitorMessage::kAlarm;
  };
  while (!has_alarm) ASSERT_TRUE(link.read(handle));
  EXPECT_GT(answers, 0);
  EXPECT_LT(answers, kQuestions / 2);
}

// Without a secret, a job uses only the interface that leads to rank 0.
TEST(Monitor, ListensOnTheAddressesOfTheTransportOnly) {
  MonitorAddress address;
  const Address loopback = *parse_address("127.0.0.1/8");
  const Socket listening = listen_for_peers(address, {loopback});
  sockaddr_in bound{};
  socklen_t length = sizeof bound;
  ASSERT_EQ(
      getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&bound), &length),
      0);
  EXPECT_EQ(ntohl(bound.sin_addr.s_addr), INADDR_LOOPBACK);
  EXPECT_EQ(address.count, 1U);
  EXPECT_EQ(address.hosts[0].ip, loopback.ip);
}

TEST(Monitor, SaysWhenRankZeroCannotBeReached) {
  MonitorStart start;
  listen_for_peers(start.address).close();
  Host host(1, 2);
  EXPECT_THROW(Monitor(host.memory, host.world, std::move(start)), CommError);
}

// The deaths of the first ranks of other hosts are known to the transport.
TEST(Monitor, LooksAtTheRanksThatItWaitsFor) {
  MonitorStart start{.timeout = std::chrono::minutes(5)};
  start.listening = listen_for_peers(start.address);
  start.check = [](int rank) {
    if (rank == 2) throw CommError("rank 2 has died");
  };
  Host host(0, 3);
  expect_throws<CommError>(
      [&] { Monitor(host.memory, host.world, std::move(start)); },
      {"rank 2 has died"});
}

TEST(Monitor, NamesTheRanksThatDoNotConnect) {
  MonitorStart start;
  start.listening = listen_for_peers(start.address);
  Host host(0, 3);
  expect_throws<CommError>(
      [&] { Monitor(host.memory, host.world, std::move(start)); },
      {"no connection from rank 1, 2, the first of its host"});
}

// On the thread that accepts connections, it would end the process.
TEST(Monitor, AnInvalidHostTimeoutIsAUsageError) {
  const test::ScopedVariable set("SHEAF_HOST_TIMEOUT", "soon");
  MonitorStart start;
  start.listening = listen_for_peers(start.address);
  Host host(0, 2);
  EXPECT_THROW(Monitor(host.memory, host.world, std::move(start)), UsageError);
}

}  // namespace
}  // namespace sheaf::comm
