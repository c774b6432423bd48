// The rendezvous and its errors. Ranks are threads.

#include "sheaf/tensor/start/rendezvous.hpp"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_socket.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::tensor {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Sets torchrun's variables for a test; the others are unset.
class Environment : public test::ScopedVariables {
 public:
  explicit Environment(const Values& values)
      : ScopedVariables({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                         "TORCHELASTIC_USE_AGENT_STORE",
                         "TORCHELASTIC_RESTART_COUNT"}) {
    set(values);
  }
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string place_error(const ProcessGroupOptions& options) {
  return error_of([&] { find_meeting_place(options); });
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(InitMethod, ReadsTorchrunsVariables) {
  const Environment environment({{"RANK", "1"},
                                 {"WORLD_SIZE", "4"},
                                 {"MASTER_ADDR", "node7"},
                                 {"MASTER_PORT", "29501"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const auto place = find_meeting_place({.group_name = "g"});
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(text_of(place), "node7:29501");
  EXPECT_TRUE(place.has_server);
  EXPECT_EQ(place.prefix, "worker/attempt_2/g");
}

TEST(InitMethod, ReadsUrls) {
  const auto tcp = find_meeting_place(
      {.init_method = "tcp://10.0.0.1:4711?rank=2&world_size=3"});
  EXPECT_EQ(text_of(tcp), "10.0.0.1:4711");
  EXPECT_EQ(tcp.rank, 2);
  EXPECT_EQ(tcp.world_size, 3);
  EXPECT_FALSE(tcp.has_server);
  const auto six = find_meeting_place(
      {.init_method = "tcp://[::1]:80", .world_size = 2, .rank = 1});
  EXPECT_EQ(six.host, "::1");
  const auto file = find_meeting_place(
      {.init_method = "file:///tmp/x?rank=0", .world_size = 2});
  EXPECT_EQ(file.path, "/tmp/x");
  EXPECT_EQ(file.world_size, 2);
}

TEST(InitMethod, NamesTheVariableThatIsWrong) {
  const std::map<std::string, std::string> good{{"RANK", "0"},
                                                {"WORLD_SIZE", "2"},
                                                {"MASTER_ADDR", "localhost"},
                                                {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : good) {
    auto some = good;
    some.erase(name);
    const Environment environment(some);
    EXPECT_TRUE(has(place_error({}), concat("variable ", name)))
        << place_error({});
  }
  const auto with = [&](const char* name, const char* value) {
    auto all = good;
    all[name] = value;
    const Environment environment(all);
    return place_error({});
  };
  EXPECT_TRUE(has(with("MASTER_PORT", "abc"), "MASTER_PORT='abc'"));
  EXPECT_TRUE(has(with("MASTER_PORT", "70000"), "MASTER_PORT=70000"));
  EXPECT_TRUE(has(with("RANK", "-1"), "RANK='-1'"));
  EXPECT_TRUE(has(with("RANK", "2"), "RANK=2 but WORLD_SIZE=2"));
  EXPECT_TRUE(has(with("WORLD_SIZE", "0"), "WORLD_SIZE=0"));
}

TEST(InitMethod, GivenTwice) {
  const Environment environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(has(place_error({.world_size = 1, .rank = 1}),
                  "RANK is 0, the option rank is 1"));
  EXPECT_EQ(place_error({.world_size = 1, .rank = 0}), "no error");
  EXPECT_TRUE(has(place_error({.init_method = "tcp://h:1?rank=0&world_size=3",
                               .world_size = 2}),
                  "world_size is given twice"));
}

TEST(InitMethod, NamesThePartOfTheUrlThatIsWrong) {
  const auto error = [](const std::string& method) {
    return place_error({.init_method = method, .world_size = 2, .rank = 0});
  };
  EXPECT_TRUE(has(error("tcp://host"), "the port is missing"));
  EXPECT_TRUE(has(error("tcp://:12"), "the host is missing"));
  EXPECT_TRUE(has(error("tcp://host:x1"), "port of tcp://host:x1='x1'"));
  EXPECT_TRUE(has(error("tcp://h:1?rnk=0"), "did you mean 'rank'"));
  EXPECT_TRUE(has(error("file://x/y"), "three slashes"));
  EXPECT_TRUE(has(error("file:///x/"), "is a folder"));
  EXPECT_TRUE(has(error("tpc://h:1"), "did you mean 'tcp'"));
  EXPECT_TRUE(has(error("localhost"), "is not a URL"));
  EXPECT_TRUE(
      has(place_error({.init_method = "tcp://h:1"}), "rank is missing"));
}

TEST(Backend, WrongNames) {
  EXPECT_TRUE(has(error_of([] { init_process_group({.backend = "glo"}); }),
                  "did you mean 'gloo'"));
  if (!at::hasCUDA())
    EXPECT_TRUE(has(error_of([] { init_process_group({.backend = "nccl"}); }),
                    "choose gloo or mpi"));
  EXPECT_TRUE(has(error_of([] {
                    init_process_group(
                        {.backend = "mpi", .init_method = "tcp://h:1"});
                  }),
                  "cannot be used with backend mpi"));
}

// A listening socket on a free port.
struct Listener {
  Listener() { socket = comm::listen_on_any_port(card); }
  comm::TcpCard card{};
  comm::Socket socket;
};

std::uint16_t free_port() { return Listener().card.port; }

MeetingPlace at_port(std::uint16_t port, int rank, int world_size) {
  return find_meeting_place(
      {.init_method = concat("tcp://127.0.0.1:", port, "?rank=", rank,
                             "&world_size=", world_size)});
}

// The result of each process, here a thread: the strings or the error.
std::vector<std::string> hold(const std::vector<MeetingPlace>& places,
                              milliseconds timeout) {
  std::vector<std::string> results(places.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = error_of([&] {
        const auto deadline = steady_clock::now() + timeout;
        const auto store = open_store(places[i], deadline);
        std::string all;
        for (const auto& text :
             meet(*store, places[i], deadline, concat("card ", places[i].rank)))
          all += text + ";";
        throw Error(all);
      });
    });
  for (auto& thread : threads) thread.join();
  return results;
}

constexpr milliseconds kLong(20'000);
constexpr milliseconds kShort(700);

TEST(Rendezvous, EveryRankReadsAllCardsOverTcp) {
  const auto port = free_port();
  for (const auto& result :
       hold({at_port(port, 0, 3), at_port(port, 1, 3), at_port(port, 2, 3)},
            kLong))
    EXPECT_EQ(result, "card 0;card 1;card 2;");
}

MeetingPlace at_file(const TemporaryFolder& folder, int rank, int world_size) {
  return find_meeting_place(
      {.init_method = concat("file://", (folder.path() / "meet").string()),
       .world_size = world_size,
       .rank = rank});
}

TEST(Rendezvous, AFileIsRemovedAtTheEnd) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    for (const auto& result :
         hold({at_file(folder, 0, 2), at_file(folder, 1, 2)}, kLong))
      EXPECT_EQ(result, "card 0;card 1;");
    EXPECT_TRUE(folder.names().empty());
  }
}

TEST(Rendezvous, NamesTheRanksThatAreMissing) {
  const auto port = free_port();
  const auto results = hold({at_port(port, 0, 4), at_port(port, 2, 4)}, kShort);
  EXPECT_TRUE(has(results[0], "ranks 1, 3 of 4")) << results[0];
  EXPECT_TRUE(has(results[0], "present: 0, 2")) << results[0];
  const TemporaryFolder folder;
  const auto alone = hold({at_file(folder, 0, 2)}, kShort);
  EXPECT_TRUE(has(alone[0], "ranks 1 of 2")) << alone[0];
  EXPECT_TRUE(folder.names().empty());
}

TEST(Rendezvous, NothingListens) {
  const auto port = free_port();
  const auto results = hold({at_port(port, 1, 2)}, kShort);
  EXPECT_TRUE(has(results[0], concat("nothing answers at 127.0.0.1:", port)))
      << results[0];
}

TEST(Rendezvous, TwoProcessesWithOneRank) {
  const auto port = free_port();
  const auto results = hold(
      {at_port(port, 0, 3), at_port(port, 1, 3), at_port(port, 1, 3)}, kLong);
  for (const auto& result : results)
    EXPECT_TRUE(has(result, "two processes claim to be rank 1")) << result;
}

TEST(Rendezvous, WorldSizesThatDiffer) {
  const auto port = free_port();
  const auto results = hold({at_port(port, 0, 2), at_port(port, 1, 3)}, kLong);
  for (const auto& result : results)
    EXPECT_TRUE(has(result, "world sizes differ")) << result;
}

TEST(Rendezvous, APortThatIsTaken) {
  const Listener other;
  const auto port = other.card.port;
  const auto results = hold({at_port(port, 0, 2)}, kShort);
  EXPECT_TRUE(has(results[0], "in use by another program on this host"))
      << results[0];
}

TEST(Rendezvous, AHostThatIsUnknown) {
  const auto place = find_meeting_place(
      {.init_method = "tcp://no-such-host.invalid:1?rank=1&world_size=2"});
  EXPECT_TRUE(
      has(hold({place}, kShort)[0], "'no-such-host.invalid' is not a known"));
}

TEST(Rendezvous, AFolderThatDoesNotExist) {
  const auto place = find_meeting_place(
      {.init_method = "file:///no/such/folder/x?rank=0&world_size=2"});
  EXPECT_TRUE(has(hold({place}, kShort)[0], "cannot write to /no/such/folder"));
}

}  // namespace
}  // namespace sheaf::tensor
