#include "sheaf/base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

// The text that `call` writes to standard error; level and rank are restored.
std::string logged(const std::function<void()>& call) {
  const LogLevel before = log_level();
  ::testing::internal::CaptureStderr();
  call();
  set_log_rank(-1);
  set_log_level(before);
  return ::testing::internal::GetCapturedStderr();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Log, ALineHasLevelAndText) {
  const std::string text = logged([] {
    set_log_level(LogLevel::kInfo);
    log_warn("{} of {} bytes", 3, "many");
  });
  EXPECT_TRUE(has(text, "[sheaf] [warning] 3 of many bytes\n")) << text;
}

TEST(Log, LowerLevelsAreLeftOut) {
  const std::string text = logged([] {
    set_log_level(LogLevel::kWarn);
    log_debug("aaa");
    log_info("bbb");
    log_warn("ccc");
    log_error("ddd");
  });
  EXPECT_FALSE(has(text, "aaa"));
  EXPECT_FALSE(has(text, "bbb"));
  EXPECT_TRUE(has(text, "ccc"));
  EXPECT_TRUE(has(text, "ddd"));
}

TEST(Log, OffIsSilent) {
  EXPECT_EQ(logged([] {
              set_log_level(LogLevel::kOff);
              log_error("nothing");
            }),
            "");
}

TEST(Log, NamesTheRankOnceItIsKnown) {
  const std::string text = logged([] {
    log_error("before");
    set_log_rank(3);
    log_error("after");
  });
  EXPECT_TRUE(has(text, "] before\n")) << text;
  EXPECT_TRUE(has(text, "] rank 3: after\n")) << text;
}

TEST(Log, LinesOfThreadsStayWhole) {
  const std::string text = logged([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([] {
        for (int k = 0; k < 50; ++k) log_error("{}", std::string(100, 'x'));
      });
    for (auto& thread : threads) thread.join();
  });
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = text.find("] " + std::string(100, 'x') + "\n",
                                           at)) != std::string::npos;
       ++at)
    ++lines;
  EXPECT_EQ(lines, 200u);
}

TEST(Log, EveryLevelParses) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  expect_throws<UsageError>([] { parse_log_level("inof"); },
                            {"did you mean 'info'?"});
}

// The variable is read once per process, so each case needs a process.
void log_all_and_exit(const char* variable) {
  setenv("SHEAF_LOG", variable, /*overwrite=*/1);
  log_info("an info");
  std::exit(log_level() == LogLevel::kInfo ? 0 : 1);
}

TEST(LogDeathTest, TheEnvironmentSetsTheLevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(log_all_and_exit("info"), ::testing::ExitedWithCode(0),
              "an info");
  EXPECT_EXIT(log_all_and_exit("inof"), ::testing::ExitedWithCode(1),
              "SHEAF_LOG: unknown log level 'inof'.*did you mean 'info'");
}

}  // namespace
}  // namespace sheaf
