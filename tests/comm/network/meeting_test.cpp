#include "sheaf/comm/network/meeting.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "sheaf/comm/network/frame_link.hpp"
#include "sheaf/comm/network/meeting_messages.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kShort = milliseconds(500);

class Meetings : public testing::Test {
 protected:
  MeetingPlan plan(int rank, int size) const {
    return {.endpoints = {{test::kLoopback, port_}},
            .identity = test::identity_with("a test's secret"),
            .rank = rank,
            .size = size,
            .deadline = test::soon(),
            .place = "THE PLACE",
            .port_from = "PORT",
            .host_from = "HOST",
            .rank_from = "RANK",
            .size_from = "SIZE"};
  }
  // What each process learns: the cards, or the error.
  static std::string result_of(const MeetingPlan& plan) {
    return error_of<Error>([&] {
      std::string all;
      for (const auto& card :
           meet_at_rank_zero(plan, concat("card ", plan.rank)).cards)
        all += card + ";";
      throw Error(all);
    });
  }
  static std::vector<std::string> hold(const std::vector<MeetingPlan>& plans) {
    std::vector<std::future<std::string>> results;
    for (const MeetingPlan& plan : plans)
      results.push_back(
          std::async(std::launch::async, [&plan] { return result_of(plan); }));
    std::vector<std::string> texts;
    for (auto& result : results) texts.push_back(result.get());
    return texts;
  }
  static void expect_all(const std::vector<std::string>& results,
                         const std::string& words) {
    for (const std::string& result : results)
      EXPECT_NE(result.find(words), std::string::npos) << result;
  }

  // A connection to rank 0, which may not listen yet.
  Channel connect_as(int rank, int size) const {
    const ConnectPlan to_host{.endpoints = {{test::kLoopback, port_}},
                              .me = {.purpose = Purpose::kMeeting,
                                     .identity = plan(rank, size).identity,
                                     .rank = rank,
                                     .size = size},
                              .peer = 0,
                              .deadline = test::soon()};
    for (;;)
      if (Connection result = connect_to(to_host); result.channel)
        return std::move(result.channel);
  }

  const std::uint16_t port_ = test::free_port();
};

TEST_F(Meetings, EveryRankGetsAllCards) {
  for (const auto& result :
       hold({plan(0, 4), plan(2, 4), plan(3, 4), plan(1, 4)}))
    EXPECT_EQ(result, "card 0;card 1;card 2;card 3;");
}

TEST_F(Meetings, EverySessionHasItsOwnKey) {
  std::vector<Key> keys;
  for (int i = 0; i < 2; ++i) {
    auto other = std::async(std::launch::async, [&] {
      return meet_at_rank_zero(plan(1, 2), "").session;
    });
    const Key mine = meet_at_rank_zero(plan(0, 2), "").session;
    EXPECT_EQ(mine.bytes(), other.get().bytes());
    keys.push_back(mine);
  }
  EXPECT_NE(keys[0].bytes(), keys[1].bytes());
}

TEST_F(Meetings, MayBeEncryptedOrWithoutASecret) {
  for (const bool encrypts : {false, true}) {
    std::vector<MeetingPlan> plans{plan(0, 2), plan(1, 2)};
    for (MeetingPlan& one : plans) {
      one.encrypts = encrypts;
      if (!encrypts) one.identity = {.job = "open", .key = {}};
    }
    for (const auto& result : hold(plans)) EXPECT_EQ(result, "card 0;card 1;");
  }
}

TEST_F(Meetings, TwoProcessesWithOneRankAreNamed) {
  expect_all(hold({plan(0, 3), plan(1, 3), plan(1, 3)}),
             concat("two processes claim to be rank 1 at THE PLACE: process ",
                    getpid(), " on "));
}

TEST_F(Meetings, WorldSizesThatDifferAreNamed) {
  expect_all(hold({plan(0, 2), plan(1, 3)}), "world sizes differ: rank 1 (");
}

TEST_F(Meetings, ASecondRankZeroFindsThePortTaken) {
  MeetingPlan first = plan(0, 2);
  auto holder =
      std::async(std::launch::async, [&] { return result_of(first); });
  for (int error = 1; error != 0;)  // until it listens
    connect_within({test::kLoopback, port_}, test::soon(), error);
  EXPECT_EQ(result_of(plan(0, 2)).find("PORT="), 0u);
  EXPECT_EQ(result_of(plan(1, 2)), "card 0;card 1;");
  EXPECT_EQ(holder.get(), "card 0;card 1;");
}

TEST_F(Meetings, MissingRanksAreNamedToAll) {
  std::vector<MeetingPlan> plans{plan(0, 4), plan(2, 4)};
  for (MeetingPlan& one : plans) one.deadline = steady_clock::now() + kShort;
  const auto results = hold(plans);
  expect_all(results, "ranks 1, 3 of 4 did not join at THE PLACE");
  expect_all(results, "present: 0, 2");
}

TEST_F(Meetings, AnAddressWhereNothingListensIsNamed) {
  MeetingPlan alone = plan(1, 2);
  alone.deadline = steady_clock::now() + kShort;
  expect_throws<TimeoutError>(
      [&] { meet_at_rank_zero(alone, ""); },
      {"rank 1: nothing answers at THE PLACE (HOST, PORT)", "refused"});
}

TEST_F(Meetings, AnotherSecretIsRefusedAtOnce) {
  MeetingPlan mine = plan(0, 2);
  mine.deadline = steady_clock::now() + kShort;
  MeetingPlan other = plan(1, 2);
  other.identity = test::identity_with("another secret");
  const auto results = hold({mine, other});
  EXPECT_NE(results[1].find("is not rank 0 of this job"), std::string::npos)
      << results[1];
  EXPECT_NE(results[0].find("claims to be rank 1 was refused"),
            std::string::npos)
      << results[0];
}

// A rank that has joined, but does not read what rank 0 sends: it is stopped.
TEST_F(Meetings, RanksThatDoNotRespondAreNamed) {
  MeetingPlan mine = plan(0, 2);
  mine.deadline = steady_clock::now() + kShort;
  auto host = std::async(std::launch::async, [&] { return result_of(mine); });
  Connection stopped;
  while (!stopped.channel)
    stopped = connect_to({.endpoints = {{test::kLoopback, port_}},
                          .me = {.purpose = Purpose::kMeeting,
                                 .identity = plan(1, 2).identity,
                                 .rank = 1,
                                 .size = 2},
                          .peer = 0,
                          .deadline = test::soon()});
  FrameLink link(std::move(stopped.channel), kMostCardBytes);
  const std::string card = "a process\nits card";
  link.send(static_cast<std::uint32_t>(MeetingMessage::kCard),
            std::as_bytes(std::span(card)));
  const std::string text = host.get();
  EXPECT_NE(text.find("ranks 1 of 2 joined at THE PLACE, but did not respond"),
            std::string::npos)
      << text;
}

// Rank 0 listens at one of the addresses of its host, later.
TEST_F(Meetings, AnotherProgramAtOneAddressIsSkipped) {
  const Address other = *parse_address("127.0.0.2/8");
  std::uint16_t port = port_;
  const Socket listening = listen_at(other, port);
  MeetingPlan guest = plan(1, 2);
  guest.endpoints.insert(guest.endpoints.begin(), {other, port_});
  auto result =
      std::async(std::launch::async, [&] { return result_of(guest); });
  std::future<std::string> host;
  for (int visits = 0;
       result.wait_for(milliseconds(1)) != std::future_status::ready;) {
    const Socket visitor(::accept4(listening.fd(), nullptr, nullptr,
                                   SOCK_CLOEXEC | SOCK_NONBLOCK));
    const char nonsense[200] = "HTTP/1.0 400 Bad Request\r\n\r\n";
    if (!visitor) continue;
    write_within(visitor.fd(), nonsense, sizeof nonsense, test::soon());
    char rest[200];  // until the other side closes
    while (is_ready(visitor.fd(), POLLIN, test::soon()) &&
           ::recv(visitor.fd(), rest, sizeof rest, 0) > 0) {
    }
    if (++visits == 2)
      host = std::async(std::launch::async,
                        [this] { return result_of(plan(0, 2)); });
  }
  EXPECT_EQ(result.get(), "card 0;card 1;");
  if (host.valid()) EXPECT_EQ(host.get(), "card 0;card 1;");
}

// The text of the error of rank 0 when rank 1, a process, is killed there.
std::string error_after_death(const MeetingPlan& host, pid_t victim) {
  std::thread killer([victim] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(victim, SIGKILL);
  });
  const std::string text =
      error_of<CommError>([&] { meet_at_rank_zero(host, ""); });
  killer.join();
  ::waitpid(victim, nullptr, 0);
  return text;
}

// It has sent its card, and rank 2 never comes.
TEST_F(Meetings, ADeathWhileOthersAreMissingIsNamed) {
  const pid_t victim = ::fork();
  if (victim == 0) {
    meet_at_rank_zero(plan(1, 3), "");
    ::_exit(0);
  }
  const std::string text = error_after_death(plan(0, 3), victim);
  EXPECT_EQ(text.find(concat("rank 1 (process ", victim, " on ")), 0u) << text;
  EXPECT_NE(text.find("has died while the ranks were connecting"),
            std::string::npos);
}

TEST_F(Meetings, TheDeathOfRankZeroIsReported) {
  const pid_t victim = ::fork();
  if (victim == 0) {
    meet_at_rank_zero(plan(0, 3), "");
    ::_exit(0);
  }
  const std::string text = error_after_death(plan(1, 3), victim);
  EXPECT_NE(text.find("rank 0 at THE PLACE (HOST, PORT) has closed"),
            std::string::npos)
      << text;
}

// It has answered the guest, whose proof never reaches it.
TEST_F(Meetings, TheLossOfRankZerosHostIsReportedAtOnce) {
  std::uint16_t port = port_;
  const Socket listening = listen_at(test::kLoopback, port);
  auto guest =
      std::async(std::launch::async, [this] { return result_of(plan(1, 2)); });
  ASSERT_TRUE(is_ready(listening.fd(), POLLIN, test::soon()));
  const Socket lost(::accept(listening.fd(), nullptr, nullptr));
  ClientHello hello;
  ASSERT_TRUE(read_within(lost.fd(), &hello, sizeof hello, test::soon()));
  test::cut_off(lost);
  const auto answer = ServerHandshake({.purpose = Purpose::kMeeting,
                                       .identity = plan(0, 2).identity,
                                       .rank = 0,
                                       .size = 2})
                          .answer(hello);
  ASSERT_TRUE(write_within(lost.fd(), &*answer, sizeof *answer, test::soon()));
  const std::string text = guest.get();
  EXPECT_NE(text.find("the host of rank 0 at THE PLACE (HOST, PORT) does not "
                      "respond any more"),
            std::string::npos)
      << text;
}

// Such as a stranger that meets a job without a secret.
TEST_F(Meetings, ARankThatCannotExistIsRefused) {
  auto host =
      std::async(std::launch::async, [this] { return result_of(plan(0, 2)); });
  Connection strange;
  while (!strange.channel && strange.may_retry)  // until rank 0 listens
    strange = connect_to({.endpoints = {{test::kLoopback, port_}},
                          .me = {.purpose = Purpose::kMeeting,
                                 .identity = plan(1, 2).identity,
                                 .rank = 1 << 20,
                                 .size = 2},
                          .peer = 0,
                          .deadline = test::soon()});
  EXPECT_FALSE(strange.channel);
  EXPECT_NE(strange.why.find("another rank"), std::string::npos) << strange.why;
  EXPECT_EQ(result_of(plan(1, 2)), "card 0;card 1;");
  EXPECT_EQ(host.get(), "card 0;card 1;");
}

// A rank that the job accepts may send anything.
TEST_F(Meetings, InvalidFramesEndTheConnectionOnly) {
  auto host =
      std::async(std::launch::async, [this] { return result_of(plan(0, 2)); });
  for (const std::uint32_t length : {100u, 0xffffffffu}) {
    const Channel strange = connect_as(1, 2);
    const std::uint32_t header[] = {99, length};
    EXPECT_TRUE(
        write_within(strange.fd(), header, sizeof header, test::soon()));
    if (length == 100) continue;  // incomplete: closed by this side
    EXPECT_TRUE(is_ready(strange.fd(), POLLIN, test::soon()));
  }
  EXPECT_EQ(result_of(plan(1, 2)), "card 0;card 1;");
  EXPECT_EQ(host.get(), "card 0;card 1;");
}

// The other ranks would refuse it, and all would wait until the timeout.
TEST_F(Meetings, ACardThatIsTooLongIsAnError) {
  auto host =
      std::async(std::launch::async, [this] { return result_of(plan(0, 2)); });
  FrameLink link(connect_as(1, 2), kMostCardBytes);
  const std::string card(kMostCardBytes + 1, 'x');
  link.send(static_cast<std::uint32_t>(MeetingMessage::kCard),
            bytes_of("me\n" + card));
  for (bool has_failed = false; !has_failed;)
    ASSERT_TRUE(link.read([&](const FrameBuffer::Frame& frame) {
      has_failed =
          frame.kind == static_cast<std::uint32_t>(MeetingMessage::kFailure);
    }));
  link.close();
  const std::string text = host.get();
  EXPECT_EQ(text.find("rank 1 has sent 4100 bytes that are not its card"), 0u)
      << text;
}

TEST_F(Meetings, CardsThatAreInvalidAreAnError) {
  auto guest =
      std::async(std::launch::async, [this] { return result_of(plan(1, 2)); });
  std::promise<Channel> arrived;
  std::uint16_t port = port_;
  Acceptor host(
      listen_at(test::kLoopback, port),
      {.purpose = Purpose::kMeeting,
       .identity = plan(0, 2).identity,
       .rank = 0,
       .size = 2},
      [&](Acceptor::Guest one) { arrived.set_value(std::move(one.channel)); });
  FrameLink link(arrived.get_future().get(), kMostCardBytes);
  link.send(static_cast<std::uint32_t>(MeetingMessage::kCards),
            bytes_of(encode({.random = {}, .cards = {"only one"}})));
  const std::string text = guest.get();
  EXPECT_NE(text.find("rank 0 at THE PLACE"), std::string::npos) << text;
  EXPECT_NE(text.find("not the 2 cards of this job"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::comm
