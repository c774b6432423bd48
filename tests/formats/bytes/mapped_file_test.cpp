#include "sheaf/formats/bytes/mapped_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <thread>

#include "sheaf/formats/bytes/file_bytes.hpp"
#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {
namespace {

namespace fs = std::filesystem;

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

class Mapped : public FileTest {
 protected:
  static int sum_of(const FileBytes& file) {
    return std::accumulate(file.data(), file.data() + file.size, 0);
  }
  std::string write_ones(std::size_t count) const {
    return write("data", Bytes(count, 1));
  }
};

TEST_F(Mapped, AFileTruncatedWhileItIsReadIsAnError) {
  const std::string path = write_ones(10 * kPage);
  const FileBytes file = map_bytes(path);
  file.check_mapping();
  fs::resize_file(path, 3 * kPage);
  EXPECT_EQ(sum_of(file), static_cast<int>(3 * kPage));
  const std::string text = io_error([&] { file.check_mapping(); });
  EXPECT_TRUE(contains(text, concat(path, ": the file was truncated from ",
                                    10 * kPage, " to ", 3 * kPage, " bytes")))
      << text;
}

// The kernel fills the rest of the last page with zeros and raises no signal.
TEST_F(Mapped, AFileTruncatedWithinAPageIsAnError) {
  const std::string path = write_ones(kPage);
  const FileBytes file = map_bytes(path);
  fs::resize_file(path, 100);
  EXPECT_EQ(sum_of(file), 100);
  EXPECT_NE(io_error([&] { file.check_mapping(); }), "");
}

TEST_F(Mapped, AFileThatWasTruncatedForATimeStaysAnError) {
  const std::string path = write_ones(3 * kPage);
  const FileBytes file = map_bytes(path);
  fs::resize_file(path, 0);
  EXPECT_EQ(file.data()[2 * kPage], 0);
  write_ones(3 * kPage);
  for (int i = 0; i < 2; ++i) {
    const std::string text = io_error([&] { file.check_mapping(); });
    EXPECT_TRUE(contains(text, "truncated for a time")) << text;
  }
  map_bytes(path).check_mapping();
}

TEST_F(Mapped, AModifiedFileIsLoggedOnce) {
  const std::string path = write_ones(kPage);
  const FileBytes file = map_bytes(path);
  fs::last_write_time(path,
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) file.check_mapping();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(log, path + " was modified")) << log;
  EXPECT_EQ(log.find("was modified"), log.rfind("was modified"));
}

TEST_F(Mapped, ATruncationThatNobodyChecksIsLogged) {
  const std::string path = write_ones(2 * kPage);
  testing::internal::CaptureStderr();
  {
    const FileBytes file = map_bytes(path);
    fs::resize_file(path, 0);
    EXPECT_EQ(sum_of(file), 0);
  }
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), path));
}

TEST_F(Mapped, ManyThreadsReadATruncatedFile) {
  const std::string path = write_ones(64 * kPage);
  const FileBytes file = map_bytes(path);
  fs::resize_file(path, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      EXPECT_EQ(sum_of(file), 0);
      EXPECT_NE(io_error([&] { file.check_mapping(); }), "");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Mapped, WritingDoesNotChangeTheFile) {
  const std::string path = write_ones(kPage);
  const FileBytes file = map_bytes(path);
  file.memory.get()[0] = 9;
  EXPECT_EQ(read_bytes(path).data()[0], 1);
}

// Signals that do not come from mapped data.
class OtherBusError : public testing::Test {
 protected:
  void SetUp() override {
    // Each in a process of its own, in which no handler is installed yet.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  // Reads behind the end of a file that Sheaf does not map.
  static void raise_fault() {
    std::FILE* file = std::tmpfile();
    void* place =
        ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(file), 0);
    volatile const char* first = static_cast<const char*>(place);
    static_cast<void>(*first);
  }
  // A file that exists in the new process, too.
  static constexpr const char* kProgram = "/proc/self/exe";
  static bool was_killed(int status) { return status != 0; }
};

TEST_F(OtherBusError, EndsTheProcessAsBefore) {
  EXPECT_EXIT(
      {
        const FileBytes file = map_bytes(kProgram);
        raise_fault();
        ::_exit(0);
      },
      was_killed, "");
  EXPECT_EXIT(
      {
        const FileBytes file = map_bytes(kProgram);
        ::raise(SIGBUS);
        ::_exit(0);
      },
      was_killed, "");
}

TEST_F(OtherBusError, ReachesAnEarlierHandler) {
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, [](int) { ::_exit(7); });
        const FileBytes file = map_bytes(kProgram);
        raise_fault();
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = [](int, siginfo_t*, void*) { ::_exit(8); };
        ::sigaction(SIGBUS, &action, nullptr);
        const FileBytes file = map_bytes(kProgram);
        raise_fault();
      },
      testing::ExitedWithCode(8), "");
}

TEST_F(OtherBusError, IsIgnoredIfItWas) {
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, SIG_IGN);
        const FileBytes file = map_bytes(kProgram);
        ::raise(SIGBUS);
        ::_exit(6);
      },
      testing::ExitedWithCode(6), "");
}

// The range was watched, but is not any more.
TEST_F(OtherBusError, IsNotThatOfAFormerMapping) {
  EXPECT_EXIT(
      {
        void* place = map_bytes(kProgram).memory.get();
        std::FILE* file = std::tmpfile();
        ::mmap(place, kPage, PROT_READ, MAP_SHARED | MAP_FIXED, fileno(file),
               0);
        static_cast<void>(*static_cast<volatile const char*>(place));
        ::_exit(0);
      },
      was_killed, "");
}

}  // namespace
}  // namespace sheaf::formats::made
