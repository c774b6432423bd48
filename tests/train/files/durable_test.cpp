#include "sheaf/train/files/durable.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// fsync() fails on /dev/null with EINVAL.
TEST(Durable, AFailedSyncClosesTheFile) {
  const std::ptrdiff_t before = open_descriptors();
  expect_throws<IoError>([] { sync_file("/dev/null"); },
                         {"/dev/null", "Invalid argument"});
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Durable, AMissingFileCannotBeSynced) {
  const TemporaryFolder folder;
  expect_throws<IoError>([&] { sync_file(folder.path() / "none"); },
                         {"none", "No such file"});
}

TEST(Durable, ASummaryIsThatOfAllBytes) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  for (const std::size_t size : {0, 1, 9, (1 << 20) - 1, 1 << 20, 3000000}) {
    std::string bytes(size, 'a');
    if (size > 0) bytes.back() = 'b';
    write_file_atomically(file, bytes);
    const FileSummary summary = summarize(file);
    EXPECT_EQ(summary.bytes, size);
    EXPECT_EQ(summary.checksum, crc32c(bytes));
    EXPECT_EQ(read_whole(file), bytes);
  }
}

// A file of 1 TiB without content would take minutes.
TEST(Durable, ASummaryEndsWhenThereIsTooMuch) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  write_file_atomically(file, "abc");
  std::error_code unsupported;
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40, unsupported);
  if (unsupported) GTEST_SKIP() << "no sparse files of 1 TiB here";
  EXPECT_GT(summarize(file, 10).bytes, 10U);
  EXPECT_LT(summarize(file, 10).bytes, std::uint64_t{1} << 30);
}

// Reading this file at position 0 fails with EIO.
TEST(Durable, AReadErrorIsSeen) {
  expect_throws<IoError>([] { summarize("/proc/self/mem"); },
                         {"/proc/self/mem", "Input/output error"});
}

TEST(Durable, OnlyRegularFilesOfALimitedSizeAreRead) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  expect_throws<IoError>([&] { read_whole(file); }, {"file", "No such file"});
  expect_throws<IoError>([&] { read_whole(folder.path()); },
                         {"not a regular file"});
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // opening it would block
  expect_throws<IoError>([&] { read_whole(file); }, {"not a regular file"});
  expect_throws<IoError>([&] { summarize(file); }, {"not a regular file"});
  std::filesystem::remove(file);
  write_file_atomically(file, "12345");
  EXPECT_EQ(read_whole(file, /*most=*/5), "12345");
  expect_throws<IoError>([&] { read_whole(file, /*most=*/4); },
                         {file.string(), "5 bytes, more than 4"});
}

TEST(Durable, AnIntactFileThatCannotBeReadNowIsAnAccessError) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  write_file_atomically(file, "x");
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_THROW(read_whole(file), AccessError);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(read_whole(file), "x");
}

TEST(Durable, NamesAreExchanged) {
  const TemporaryFolder folder;
  const auto one = folder.path() / "one", other = folder.path() / "other";
  write_file_atomically(one, "1");
  write_file_atomically(other, "2");
  if (!exchange_names(one, other)) GTEST_SKIP() << "not on this file system";
  EXPECT_EQ(read_whole(one), "2");
  EXPECT_EQ(read_whole(other), "1");
  EXPECT_THROW(exchange_names(one, folder.path() / "none"), IoError);
}

TEST(Durable, ALinkIsReplaced) {
  const TemporaryFolder folder;
  const auto link = folder.path() / "link";
  for (const char* target : {"a", "b"}) {
    EXPECT_TRUE(replace_link(target, link));
    EXPECT_EQ(std::filesystem::read_symlink(link), target);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"link"});
  std::filesystem::remove(link);
  std::filesystem::create_directory(link);
  EXPECT_THROW(replace_link("a", link), IoError);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"link"});
}

}  // namespace
}  // namespace sheaf::train
