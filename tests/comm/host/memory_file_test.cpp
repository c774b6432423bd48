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
  const MemoryFile again = MemoryFile::open(mine.name());
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
  const MemoryFile file = MemoryFile::create(kBytes);
  HeapName name = file.name();
  name.fd = 9999;
  EXPECT_THROW(MemoryFile::open(name), CommError);
  name = file.name();
  name.pid = 999999999;
  EXPECT_THROW(MemoryFile::open(name), CommError);
}

// In another container, the same process id and descriptor name another file.
TEST(MemoryFile, AnotherFileIsNotMistakenForIt) {
  const MemoryFile file = MemoryFile::create(kBytes);
  const MemoryFile other = MemoryFile::create(kBytes);
  HeapName name = file.name();
  name.fd = other.fd();
  EXPECT_THROW(MemoryFile::open(name), CommError);
  for (const auto change : {+[](HeapName& one) { one.device += 1; },
                            +[](HeapName& one) { one.inode += 1; },
                            +[](HeapName& one) { one.bytes += 4096; },
                            +[](HeapName& one) { one.nonce[1] += 1; }}) {
    name = file.name();
    change(name);
    EXPECT_THROW(MemoryFile::open(name), CommError);
  }
}

TEST(MemoryFile, OwnerIsAliveWhileItHoldsTheLock) {
  MemoryFile mine = MemoryFile::create(kBytes);
  const MemoryFile peer = MemoryFile::open(mine.name());
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  EXPECT_TRUE(peer.is_owner_alive());
  mine.unlock();
  EXPECT_FALSE(peer.is_owner_alive());
  mine.lock_as_owner();
  mine = MemoryFile();
  EXPECT_FALSE(peer.is_owner_alive());
}

// Owns a memory file, sends its name to the parent, and waits to be killed.
[[noreturn]] void live_as_owner(int to_parent) {
  MemoryFile file = MemoryFile::create(kBytes);
  file.lock_as_owner();
  file.data()[0] = std::byte{42};
  const HeapName name = file.name();
  if (write(to_parent, &name, sizeof name) == sizeof name)
    for (;;) pause();
  _exit(1);
}

TEST(MemoryFile, OutlivesItsKilledOwnerForPeersOnly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) live_as_owner(ends[1]);
  HeapName name;
  ASSERT_EQ(read(ends[0], &name, sizeof name), ssize_t{sizeof name});
  MemoryFile peer = MemoryFile::open(name);
  EXPECT_TRUE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(peer.is_owner_alive());
  EXPECT_EQ(peer.data()[0], std::byte{42});
  EXPECT_THROW(MemoryFile::open(name), CommError);
  close(ends[0]);
  close(ends[1]);
}

// The child process of a rank has copies of its descriptors.
TEST(MemoryFile, AChildThatLivesOnDoesNotHideTheEndOfItsOwner) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int grandchild_ends[2];
  ASSERT_EQ(pipe(grandchild_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    MemoryFile file = MemoryFile::create(kBytes);
    file.lock_as_owner();
    if (fork() == 0) {
      close(grandchild_ends[1]);
      char byte = 0;  // lives until the test ends
      [[maybe_unused]] const auto got = read(grandchild_ends[0], &byte, 1);
      _exit(0);
    }
    const HeapName name = file.name();
    if (write(ends[1], &name, sizeof name) == sizeof name)
      for (;;) pause();
    _exit(1);
  }
  HeapName name;
  ASSERT_EQ(read(ends[0], &name, sizeof name), ssize_t{sizeof name});
  const MemoryFile peer = MemoryFile::open(name);
  EXPECT_TRUE(peer.is_owner_alive());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(peer.is_owner_alive());
  for (const int fd :
       {ends[0], ends[1], grandchild_ends[0], grandchild_ends[1]})
    close(fd);
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

TEST(RankProcess, EndsWithItsProcess) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  const RankProcess process = RankProcess::open(child);
  if (!process.is_known()) GTEST_SKIP() << "this kernel has no pidfd_open()";
  EXPECT_FALSE(process.has_ended());
  ::kill(child, SIGSTOP);  // not an end
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_FALSE(process.has_ended());
  ::kill(child, SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(child), nullptr, WEXITED | WNOWAIT);
  EXPECT_TRUE(process.has_ended());  // before its parent has waited for it
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process.has_ended());
}

TEST(RankProcess, AProcessThatDoesNotExistIsNotKnown) {
  EXPECT_FALSE(RankProcess::open(999999999).is_known());
  EXPECT_FALSE(RankProcess().is_known());
}

}  // namespace
}  // namespace sheaf::comm
