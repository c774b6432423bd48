#include "sheaf/comm/host/segment.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

TEST(Segment, IsMappedOncePerProcess) {
  const Segment mine = Segment::create(kBytes);
  const Segment again = Segment::open(getpid(), mine.fd(), kBytes);
  EXPECT_EQ(again.data(), mine.data());
  EXPECT_NE(again.fd(), mine.fd());
}

TEST(Segment, IsAlignedForHugePages) {
  const Segment segment = Segment::create(kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % (2u << 20), 0u);
}

TEST(Segment, KnowsWhatItContains) {
  const Segment segment = Segment::create(kBytes);
  EXPECT_TRUE(segment.contains(segment.data(), kBytes));
  EXPECT_TRUE(segment.contains(segment.data() + kBytes, 0));
  EXPECT_FALSE(segment.contains(segment.data() + 1, kBytes));
  EXPECT_FALSE(segment.contains(segment.data() - 1, 1));
  EXPECT_FALSE(segment.contains(segment.data() + 1, ~std::size_t{0}));
  EXPECT_FALSE(segment.contains(&segment, 1));
}

TEST(Segment, CommitsMemory) {
  Segment segment = Segment::create(kBytes);
  EXPECT_TRUE(segment.commit(100, 10000));
  EXPECT_TRUE(segment.commit(0, 0));
  std::memset(segment.data() + 100, 1, 10000);
}

TEST(Segment, ThatIsNotThereIsAnError) {
  EXPECT_THROW(Segment::open(getpid(), 9999, kBytes), CommError);
  EXPECT_THROW(Segment::open(999999999, 3, kBytes), CommError);
}

TEST(Segment, OwnerIsAliveWhileItHoldsTheLock) {
  Segment mine = Segment::create(kBytes);
  const Segment peer = Segment::open(getpid(), mine.fd(), kBytes);
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  EXPECT_TRUE(peer.is_owner_alive());
  mine.unlock();
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  mine = Segment();
  EXPECT_FALSE(peer.is_owner_alive());
}

struct Letter {
  pid_t pid;
  int fd;
};

// Owns a segment, sends its name to the parent, and waits to be killed.
[[noreturn]] void live_as_owner(int to_parent) {
  Segment segment = Segment::create(kBytes);
  segment.lock_as_owner();
  segment.data()[0] = std::byte{42};
  const Letter letter{getpid(), segment.fd()};
  if (write(to_parent, &letter, sizeof letter) == sizeof letter)
    for (;;) pause();
  _exit(1);
}

TEST(Segment, OutlivesItsKilledOwnerForPeersOnly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) live_as_owner(ends[1]);
  Letter letter{};
  ASSERT_EQ(read(ends[0], &letter, sizeof letter), ssize_t{sizeof letter});
  Segment peer = Segment::open(letter.pid, letter.fd, kBytes);
  EXPECT_TRUE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  EXPECT_THROW(Segment::open(letter.pid, letter.fd, kBytes), CommError);
  close(ends[0]);
  close(ends[1]);
}

std::set<std::string> shared_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("sheaf") != std::string::npos)
      names.insert(entry.path().filename().string());
  return names;
}

TEST(Segment, HasNoName) {
  const auto before = shared_names();
  const Segment segment = Segment::create(kBytes);
  EXPECT_EQ(shared_names(), before);
}

}  // namespace
}  // namespace sheaf::comm
