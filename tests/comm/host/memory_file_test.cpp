#include "sheaf/comm/host/memory_file.hpp"

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

TEST(MemoryFile, IsMappedOncePerProcess) {
  const MemoryFile mine = MemoryFile::create(kBytes);
  const MemoryFile again = MemoryFile::open(getpid(), mine.fd(), kBytes);
  EXPECT_EQ(again.data(), mine.data());
  EXPECT_NE(again.fd(), mine.fd());
}

TEST(MemoryFile, IsAlignedForHugePages) {
  const MemoryFile file = MemoryFile::create(kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.data()) % (2u << 20), 0u);
}

TEST(MemoryFile, KnowsWhatItContains) {
  const MemoryFile file = MemoryFile::create(kBytes);
  EXPECT_TRUE(file.contains(file.data(), kBytes));
  EXPECT_TRUE(file.contains(file.data() + kBytes, 0));
  EXPECT_FALSE(file.contains(file.data() + 1, kBytes));
  EXPECT_FALSE(file.contains(file.data() - 1, 1));
  EXPECT_FALSE(file.contains(file.data() + 1, ~std::size_t{0}));
  EXPECT_FALSE(file.contains(&file, 1));
}

TEST(MemoryFile, CommitsMemory) {
  MemoryFile file = MemoryFile::create(kBytes);
  EXPECT_TRUE(file.commit(100, 10000));
  EXPECT_TRUE(file.commit(0, 0));
  std::memset(file.data() + 100, 1, 10000);
}

TEST(MemoryFile, ThatIsNotThereIsAnError) {
  EXPECT_THROW(MemoryFile::open(getpid(), 9999, kBytes), CommError);
  EXPECT_THROW(MemoryFile::open(999999999, 3, kBytes), CommError);
}

TEST(MemoryFile, OwnerIsAliveWhileItHoldsTheLock) {
  MemoryFile mine = MemoryFile::create(kBytes);
  const MemoryFile peer = MemoryFile::open(getpid(), mine.fd(), kBytes);
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  EXPECT_TRUE(peer.is_owner_alive());
  mine.unlock();
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  mine = MemoryFile();
  EXPECT_FALSE(peer.is_owner_alive());
}

struct Letter {
  pid_t pid;
  int fd;
};

// Owns a memory file, sends its name to the parent, and waits to be killed.
[[noreturn]] void live_as_owner(int to_parent) {
  MemoryFile file = MemoryFile::create(kBytes);
  file.lock_as_owner();
  file.data()[0] = std::byte{42};
  const Letter letter{getpid(), file.fd()};
  if (write(to_parent, &letter, sizeof letter) == sizeof letter)
    for (;;) pause();
  _exit(1);
}

TEST(MemoryFile, OutlivesItsKilledOwnerForPeersOnly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) live_as_owner(ends[1]);
  Letter letter{};
  ASSERT_EQ(read(ends[0], &letter, sizeof letter), ssize_t{sizeof letter});
  MemoryFile peer = MemoryFile::open(letter.pid, letter.fd, kBytes);
  EXPECT_TRUE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  EXPECT_THROW(MemoryFile::open(letter.pid, letter.fd, kBytes), CommError);
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

TEST(MemoryFile, HasNoName) {
  const auto before = shared_names();
  const MemoryFile file = MemoryFile::create(kBytes);
  EXPECT_EQ(shared_names(), before);
}

}  // namespace
}  // namespace sheaf::comm
