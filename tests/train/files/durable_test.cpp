#include "sheaf/train/files/durable.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
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

TEST(Durable, AFileInAMissingFolderCannotBeWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "none" / "file";
  expect_throws<IoError>(
      [&] { write_durably(file, "bytes"); },
      {"cannot write " + file.string(), "No such file or directory"});
}

}  // namespace
}  // namespace sheaf::train
