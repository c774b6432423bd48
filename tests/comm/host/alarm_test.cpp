#include "sheaf/comm/host/alarm.hpp"

#include <gtest/gtest.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sheaf::comm {
namespace {

std::vector<std::string> texts_of(const Alarm& alarm) {
  std::vector<std::string> texts;
  AlarmReader().for_each_new(alarm, [&](const AlarmRecord& record) {
    texts.emplace_back(record.text);
  });
  return texts;
}

TEST(Alarm, KeepsOneRecordPerDeathAndPerGroup) {
  const auto alarm = std::make_unique<Alarm>();
  alarm->raise(AlarmKind::kMismatch, 1, 7, "first");
  alarm->raise(AlarmKind::kGroupFailed, 2, 7, "the same group");
  alarm->raise(AlarmKind::kGroupFailed, 2, 8, "another group");
  alarm->raise(AlarmKind::kRankDied, 7, -1, "");
  alarm->raise(AlarmKind::kRankDied, 7, -1, "again");
  EXPECT_EQ(texts_of(*alarm),
            (std::vector<std::string>{"first", "another group", ""}));
}

TEST(Alarm, CutsLongTexts) {
  const auto alarm = std::make_unique<Alarm>();
  alarm->raise(AlarmKind::kMismatch, 0, 0, std::string(5000, 'x'));
  EXPECT_EQ(texts_of(*alarm)[0], std::string(499, 'x'));
}

// There are 64 records, for more deaths and failures than that.
TEST(Alarm, ReportsEveryDeath) {
  const auto alarm = std::make_unique<Alarm>();
  AlarmReader reader;
  std::set<int> dead;
  for (int rank = 0; rank < 1000; ++rank) {
    alarm->raise(AlarmKind::kRankDied, rank, -1, "");
    alarm->raise(AlarmKind::kRankDied, rank, -1, "again");
    reader.for_each_new(*alarm, [&](const AlarmRecord& record) {
      EXPECT_EQ(record.kind, AlarmKind::kRankDied);
      dead.insert(record.rank);
    });
    EXPECT_TRUE(dead.contains(rank)) << rank;
  }
  EXPECT_EQ(dead.size(), 1000u);
}

TEST(Alarm, ReportsThatMoreGroupsHaveFailedThanThereAreRecords) {
  const auto alarm = std::make_unique<Alarm>();
  for (int group = 0; group < 200; ++group)
    alarm->raise(AlarmKind::kGroupFailed, 0, group, "");
  int records = 0;
  int too_many = 0;
  AlarmReader reader;
  for (int i = 0; i < 2; ++i)
    reader.for_each_new(*alarm, [&](const AlarmRecord& record) {
      ++(record.kind == AlarmKind::kTooMany ? too_many : records);
    });
  EXPECT_EQ(records, 64);
  EXPECT_EQ(too_many, 1);
}

TEST(Alarm, ARecordWhoseHandlerThrowsIsReadAgain) {
  const auto alarm = std::make_unique<Alarm>();
  alarm->raise(AlarmKind::kMismatch, 1, 7, "text");
  AlarmReader reader;
  EXPECT_THROW(reader.for_each_new(*alarm, [](const AlarmRecord&) { throw 1; }),
               int);
  int records = 0;
  for (int i = 0; i < 2; ++i)
    reader.for_each_new(*alarm, [&](const AlarmRecord&) { ++records; });
  EXPECT_EQ(records, 1);
}

// Reading this text stops the reading thread or process.
class UnreadableText {
 public:
  UnreadableText()
      : bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        page_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::memset(page_, 'x', bytes_);
    mprotect(page_, bytes_, PROT_NONE);
  }
  ~UnreadableText() { munmap(page_, bytes_); }
  UnreadableText(const UnreadableText&) = delete;
  UnreadableText& operator=(const UnreadableText&) = delete;

  std::string_view text() const { return {static_cast<char*>(page_), 100}; }
  void make_readable() const { mprotect(page_, bytes_, PROT_READ); }

 private:
  std::size_t bytes_;
  void* page_;
};

struct SlowWriter {
  sem_t has_stopped;
  sem_t may_go_on;
  UnreadableText text;
};
SlowWriter* slow_writer = nullptr;

void wait_in_handler(int) {
  sem_post(&slow_writer->has_stopped);
  while (sem_wait(&slow_writer->may_go_on) != 0) {
  }
  slow_writer->text.make_readable();
}

TEST(Alarm, ASlowWriterDoesNotChangeTheRecordOfAnother) {
  SlowWriter writer{};
  slow_writer = &writer;
  sem_init(&writer.has_stopped, 0, 0);
  sem_init(&writer.may_go_on, 0, 0);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = wait_in_handler;
  sigaction(SIGSEGV, &action, &before);
  const auto alarm = std::make_unique<Alarm>();
  std::thread slow(
      [&] { alarm->raise(AlarmKind::kMismatch, 1, 1, writer.text.text()); });
  while (sem_wait(&writer.has_stopped) != 0) {
  }
  alarm->raise(AlarmKind::kMismatch, 2, 2, "of another group");
  EXPECT_EQ(texts_of(*alarm), std::vector<std::string>{"of another group"});
  AlarmReader reader;
  reader.for_each_new(*alarm, [](const AlarmRecord&) {});
  sem_post(&writer.may_go_on);
  slow.join();
  sigaction(SIGSEGV, &before, nullptr);
  const std::string late(100, 'x');
  EXPECT_EQ(texts_of(*alarm),
            (std::vector<std::string>{late, "of another group"}));
  std::vector<std::string> news;
  reader.for_each_new(*alarm, [&](const AlarmRecord& record) {
    news.emplace_back(record.text);
  });
  EXPECT_EQ(news, std::vector<std::string>{late});
}

TEST(Alarm, AKilledWriterLeavesARecordThatReadersSkip) {
  void* memory = mmap(nullptr, sizeof(Alarm), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Alarm& alarm = *static_cast<Alarm*>(memory);  // zeroed memory is valid
  const UnreadableText text;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    alarm.raise(AlarmKind::kMismatch, 1, 1, text.text());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(texts_of(alarm).empty());
  alarm.raise(AlarmKind::kMismatch, 2, 1, "of the same group");
  alarm.raise(AlarmKind::kMismatch, 2, 1, "once more");
  alarm.raise(AlarmKind::kMismatch, 2, 2, "of another group");
  EXPECT_EQ(texts_of(alarm), (std::vector<std::string>{"of the same group",
                                                       "of another group"}));
  munmap(memory, sizeof(Alarm));
}

TEST(Alarm, ConcurrentWritersLoseNoGroup) {
  constexpr int kGroups = 20;
  const auto alarm = std::make_unique<Alarm>();
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (int group = 0; group < kGroups; ++group)
        alarm->raise(AlarmKind::kGroupFailed, writer, group,
                     std::to_string(group));
    });
  for (std::thread& writer : writers) writer.join();
  const auto texts = texts_of(*alarm);
  const std::set<std::string> groups(texts.begin(), texts.end());
  EXPECT_EQ(groups.size(), static_cast<std::size_t>(kGroups));
}

}  // namespace
}  // namespace sheaf::comm
