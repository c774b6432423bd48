#include <gtest/gtest.h>

#include <fstream>

#include "sheaf/base/system.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf {
namespace {

constexpr std::uint64_t kMega = 1 << 20;

// The files of a machine with 1000 MiB of available memory.
class MemoryLimit : public testing::Test {
 protected:
  MemoryLimit() {
    write("proc/meminfo",
          "MemTotal: 2048000 kB\n"
          "MemFree: 100 kB\n"
          "MemAvailable: 1024000 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    const auto file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void group(const std::string& folder, const std::string& limit,
             std::uint64_t used, std::uint64_t cache) {
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", std::to_string(used) + "\n");
    write(folder + "/memory.stat",
          "anon 5\ninactive_file " + std::to_string(cache) + "\n");
  }
  std::uint64_t available() { return available_memory(folder_.path()).value(); }

  const TemporaryFolder folder_;
};

TEST_F(MemoryLimit, IsThatOfTheMachineWithoutGroups) {
  EXPECT_EQ(available(), 1000 * kMega);
}

TEST_F(MemoryLimit, IsUnknownWithoutFiles) {
  EXPECT_FALSE(available_memory(folder_.path() / "nothing"));
  EXPECT_TRUE(available_memory());
}

TEST_F(MemoryLimit, OfAGroupCountsWhatItUses) {
  write("proc/self/cgroup", "0::/job/step\n");
  group("sys/fs/cgroup/job/step", std::to_string(300 * kMega), 150 * kMega,
        50 * kMega);
  EXPECT_EQ(available(), 200 * kMega);  // its cache can be reclaimed
  group("sys/fs/cgroup/job/step", std::to_string(300 * kMega), 400 * kMega, 0);
  EXPECT_EQ(available(), 0u);
  group("sys/fs/cgroup/job/step", "max", 400 * kMega, 0);
  EXPECT_EQ(available(), 1000 * kMega);
}

TEST_F(MemoryLimit, OfAnOuterGroupAppliesToo) {
  write("proc/self/cgroup", "0::/job/step\n");
  group("sys/fs/cgroup/job/step", "max", 0, 0);
  group("sys/fs/cgroup/job", std::to_string(100 * kMega), 0, 0);
  EXPECT_EQ(available(), 100 * kMega);
}

// In a container the files of the group are in the top folder.
TEST_F(MemoryLimit, OfAContainerIsInTheTopFolder) {
  write("proc/self/cgroup", "0::/../outside\n");
  group("sys/fs/cgroup", std::to_string(64 * kMega), 0, 0);
  EXPECT_EQ(available(), 64 * kMega);
}

TEST_F(MemoryLimit, OfAGroupOfVersion1) {
  write("proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/job\n");
  const std::string folder = "sys/fs/cgroup/memory/job/";
  write(folder + "memory.limit_in_bytes", std::to_string(90 * kMega));
  write(folder + "memory.usage_in_bytes", std::to_string(50 * kMega));
  write(folder + "memory.stat",
        "cache 1\ntotal_inactive_file " + std::to_string(10 * kMega));
  EXPECT_EQ(available(), 50 * kMega);
}

}  // namespace
}  // namespace sheaf
