// The key-value stores at an address and in a file, and their errors.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "sheaf/base/files.hpp"
#include "tests/tensor/start/agent.hpp"
#include "tests/tensor/start/meeting.hpp"

namespace sheaf::tensor {
namespace {

std::unique_ptr<KeyStore> open_soon(const MeetingPlace& place,
                                    milliseconds timeout = kLong) {
  return open_store(place, steady_clock::now() + timeout);
}

void expect_one_store(KeyStore& a, KeyStore& b) {
  EXPECT_EQ(a.add("counter", 2), 2);
  EXPECT_EQ(b.add("counter", 3), 5);
  EXPECT_EQ(a.add("counter", 0), 5);
  EXPECT_FALSE(b.has("key"));
  const std::string value("with\0 a zero", 12);
  a.set("key", value);
  EXPECT_TRUE(a.has("key") && b.has("key"));
  EXPECT_EQ(b.get("key"), value);
  b.set("key", "new");
  EXPECT_EQ(a.get("key"), "new");
  // get() waits for a key.
  std::string late;
  std::thread reader([&] { late = b.get("late"); });
  a.set("late", "came");
  reader.join();
  EXPECT_EQ(late, "came");
}

TEST(C10dStore, AFileIsShared) {
  const TemporaryFolder folder;
  {
    const auto first = open_soon(at_file(folder, 0, 2));
    const auto second = open_soon(at_file(folder, 1, 2));
    expect_one_store(*first, *second);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"meet"});
  }
  EXPECT_TRUE(folder.names().empty());
}

// What is in it would let strangers take part.
TEST(C10dStore, AFileIsOnlyForItsOwner) {
  const test::ScopedVariables no_secret({"SHEAF_SECRET", "SHEAF_SECRET_FILE"});
  const TemporaryFolder folder;
  const auto path = folder.path() / "meet";
  const auto mode = [&] { return std::filesystem::status(path).permissions(); };
  {
    const auto store = open_soon(at_file(folder, 0, 2));
    EXPECT_EQ(mode(), std::filesystem::perms::owner_read |
                          std::filesystem::perms::owner_write);
  }
  std::ofstream(path) << "";
  std::filesystem::permissions(path, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  expect_throws<UsageError>([&] { open_soon(at_file(folder, 0, 2)); },
                            {"can be accessed by other users; remove it"});
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(C10dStore, AFolderThatOthersCanChangeIsRefused) {
  const test::ScopedVariables no_secret({"SHEAF_SECRET", "SHEAF_SECRET_FILE"});
  const TemporaryFolder folder;
  const auto all = std::filesystem::perms::all;
  std::filesystem::permissions(folder.path(), all);
  expect_throws<UsageError>([&] { open_soon(at_file(folder, 0, 2)); },
                            {"can be written to by all users"});
  std::filesystem::permissions(folder.path(),
                               all | std::filesystem::perms::sticky_bit);
  EXPECT_NO_THROW(open_soon(at_file(folder, 0, 2)));
}

// libtorch would read it without end.
TEST(C10dStore, AFileWithOtherContentIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "meet";
  std::string whole;
  {
    const auto first = open_soon(at_file(folder, 0, 2));
    first->set("key", "value");
    whole = read_file(path);
    EXPECT_EQ(open_soon(at_file(folder, 1, 2))->get("key"), "value");
  }
  for (const std::string& content :
       {std::string("a text that somebody wrote"), std::string("abc"),
        whole.substr(0, whole.size() - 1), whole + "c"}) {
    std::ofstream(path) << content;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read |
                                           std::filesystem::perms::owner_write);
    expect_throws<UsageError>([&] { open_soon(at_file(folder, 0, 2)); },
                              {path.string(), "is no rendezvous file"});
  }
}

TEST(C10dStore, APipeIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "meet").c_str(), 0600), 0);
  expect_throws<UsageError>([&] { open_soon(at_file(folder, 0, 2)); },
                            {"is not a regular file"});
}

// Others can create one in a folder that all can write to.
TEST(C10dStore, ALinkIsNotFollowed) {
  const TemporaryFolder folder;
  const auto target = folder.path() / "valuable";
  std::ofstream(target) << "a key";
  std::filesystem::create_symlink(target, folder.path() / "meet");
  expect_throws<IoError>([&] { open_soon(at_file(folder, 0, 2)); },
                         {"cannot open the rendezvous file"});
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "a key");
}

// torchrun's agent has the port: rank 0 is a client, too.
TEST(C10dStore, AnAgentMayServe) {
  const auto port = free_port();
  const Agent agent(port);
  const auto first = open_soon(at_agent(port, 0, 2));
  const auto second = open_soon(at_agent(port, 1, 2));
  expect_one_store(*first, *second);
}

TEST(C10dStore, AServerThatIsGoneIsACommError) {
  const auto port = free_port();
  auto agent = std::make_unique<Agent>(port);
  const auto client = open_soon(at_agent(port, 1, 2));
  agent.reset();
  expect_throws<CommError>(
      [&] {
        client->set("key", "value");
        client->get("key");
      },
      {concat("the store at 127.0.0.1:", port, " failed: "),
       "torchrun's agent, may have exited"});
}

TEST(C10dStore, AnAgentThatIsMissingIsNamed) {
  const MeetingPlace place = at_agent(free_port(), 0, 2);
  expect_throws<TimeoutError>(
      [&] { open_soon(place, milliseconds(1)); },
      {"rank 0: nothing answers", "torchrun's agent must run on that host"});
}

// It accepts the connection and never answers. The listener stays, because
// libtorch's client ends the process once its peer closes the connection.
TEST(C10dStore, AnotherProgramAtThePort) {
  static const Listener& other = *new Listener;
  expect_throws<CommError>(
      [&] { open_soon(at_agent(other.port, 1, 2), milliseconds(50)); },
      {concat("rank 1: the server at 127.0.0.1:", other.port),
       "is not torchrun's agent"});
}

// Answers the first question of a client, and no further one. Its connections
// stay, as above.
void answer_once(int listening) {
  while (comm::is_ready(listening, POLLIN, test::soon())) {
    const int fd = ::accept(listening, nullptr, nullptr);
    if (fd < 0) continue;
    std::thread([fd] {
      char question[256];
      const char no = 1;
      if (::recv(fd, question, sizeof question, 0) > 0)
        ::send(fd, &no, 1, MSG_NOSIGNAL);
    }).detach();
  }
}

TEST(C10dStore, AServerThatStopsToRespondIsACommError) {
  static const Listener& other = *new Listener;
  std::thread([] { answer_once(other.socket.fd()); }).detach();
  const auto store =
      open_soon(at_agent(other.port, 1, 2), std::chrono::seconds(1));
  const auto before = steady_clock::now();
  expect_throws<CommError>([&] { store->add("counter", 1); },
                           {"does not respond"});
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(10));
}

TEST(C10dStore, AHostThatIsUnknown) {
  MeetingPlace place = find_meeting_place(
      {.init_method = "tcp://no-such-host.invalid:1?rank=1&world_size=2"});
  place.has_server = true;
  EXPECT_TRUE(
      has(hold({place}, kShort)[0], "'no-such-host.invalid' is not a known"));
}

TEST(C10dStore, AFolderThatDoesNotExist) {
  const auto place = find_meeting_place(
      {.init_method = "file:///no/such/folder/x?rank=0&world_size=2"});
  EXPECT_TRUE(has(hold({place}, kShort)[0], "cannot write to /no/such/folder"));
}

}  // namespace
}  // namespace sheaf::tensor
