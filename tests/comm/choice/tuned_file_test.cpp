#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "sheaf/comm/choice/tuner.hpp"
#include "tests/comm/ddl/dump_folder.hpp"

namespace sheaf::comm {
namespace {

TEST(TunedFile, RemembersByTopologyTypeAndSize) {
  const test::DumpFolder folder;
  const auto path = folder.file("deep/er/tuned.json");
  const TunedKey key{"4x2", DType::kF32, 1024};
  EXPECT_EQ(recall(path, key), std::nullopt);
  remember(path, key, "small", 1.5);
  remember(path, {"4x2", DType::kF32, 2048}, "ring", 2);
  remember(path, {"4x2", DType::kF64, 1024}, "tree", 2);
  remember(path, {"2x2", DType::kF32, 1024}, "flat", 2);
  EXPECT_EQ(recall(path, key), "small");
  remember(path, key, "halving", 1);
  EXPECT_EQ(recall(path, key), "halving");
  EXPECT_EQ(recall(path, {"4x2", DType::kF32, 2048}), "ring");
  EXPECT_EQ(recall(path, {"4x2", DType::kF64, 1024}), "tree");
  EXPECT_EQ(recall(path, {"2x2", DType::kF32, 1024}), "flat");
  EXPECT_EQ(recall(path, {"8x2", DType::kF32, 1024}), std::nullopt);
}

// Without a lock, processes that replace the file at the same time lose
// results.
TEST(TunedFile, ProcessesAddAtTheSameTime) {
  constexpr int kProcesses = 4;
  constexpr int kResults = 10;
  const test::DumpFolder folder;
  const auto path = folder.file("tuned.json");
  const auto key = [](int process, int result) {
    return TunedKey{concat("topology ", process), DType::kF32,
                    static_cast<std::size_t>(1 + result)};
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int i = 0; i < kResults; ++i)
      remember(path, key(process, i), "ring", i);
    _exit(0);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (int process = 0; process < kProcesses; ++process)
    for (int i = 0; i < kResults; ++i)
      EXPECT_EQ(recall(path, key(process, i)), "ring") << process << " " << i;
}

TEST(TunedFile, PathComesFromTheEnvironment) {
  {
    const test::ScopedVariable file("SHEAF_TUNED_FILE", "/x/y.json");
    EXPECT_EQ(tuned_path(), "/x/y.json");
  }
  const test::ScopedVariable cache("XDG_CACHE_HOME", "/c");
  EXPECT_EQ(tuned_path(), "/c/sheaf/tuned.json");
  const test::ScopedVariable none("XDG_CACHE_HOME", "");
  const test::ScopedVariable home("HOME", "/h");
  EXPECT_EQ(tuned_path(), "/h/.cache/sheaf/tuned.json");
}

TEST(TunedFile, NoPlaceIsNoFailure) {
  testing::internal::CaptureStderr();
  remember({}, {"a", DType::kF32, 8}, "small", 1);
  remember("/proc/none/tuned.json", {"a", DType::kF32, 8}, "small", 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot save"),
            std::string::npos);
  EXPECT_EQ(recall({}, {"a", DType::kF32, 8}), std::nullopt);
}

TEST(TunedFile, OtherVersionsAndDamageStartOver) {
  const test::DumpFolder folder;
  const TunedKey key{"4x2", DType::kF32, 1024};
  for (const char* text :
       {"", "[]", "{\"schema\": \"sheaf.tuned.1\"}",
        "{\"schema\": \"sheaf.tuned.0\", \"topologies\": {}}",
        "{\"schema\": \"sheaf.tuned.1\", \"topologies\": []}"}) {
    std::ofstream(folder.file("tuned.json")) << text;
    testing::internal::CaptureStderr();
    EXPECT_EQ(recall(folder.file("tuned.json"), key), std::nullopt) << text;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("starts over"),
              std::string::npos)
        << text;
  }
  testing::internal::CaptureStderr();
  remember(folder.file("tuned.json"), key, "small", 1);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(recall(folder.file("tuned.json"), key), "small");
  // Nobody's results are lost.
  EXPECT_EQ(folder.text("tuned.json.old"),
            "{\"schema\": \"sheaf.tuned.1\", \"topologies\": []}");
}

}  // namespace
}  // namespace sheaf::comm
