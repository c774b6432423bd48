#include "sheaf/base/read_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "sheaf/base/error.hpp"
#include "temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

TEST(ReadFile, GivesAllBytes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 100000}) {
    const std::string content(size, '\0');
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(read_file(path), content) << size;
  }
}

void expect_named(const std::filesystem::path& path) {
  expect_throws<IoError>([&] { read_file(path); }, {path.string()});
}

TEST(ReadFile, AFailureNamesTheFile) {
  const TemporaryFolder folder;
  expect_named(folder.path() / "none");
  expect_named(folder.path());
}

}  // namespace
}  // namespace sheaf
