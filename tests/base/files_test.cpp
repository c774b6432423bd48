#include "sheaf/base/files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

TEST(AtomicFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_file_atomically(path, "first, and longer");
  EXPECT_EQ(content_of(path), "first, and longer");
  write_file_atomically(path, std::string_view("a\0b", 3));
  EXPECT_EQ(content_of(path), std::string("a\0b", 3));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(AtomicFile, PiecesFollowEachOther) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  const std::vector<std::string_view> pieces{"one", "", "two"};
  write_pieces_atomically(path, pieces);
  EXPECT_EQ(content_of(path), "onetwo");
  write_pieces_atomically(path, {});
  EXPECT_EQ(content_of(path), "");
}

TEST(AtomicFile, AFailureNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  // The name is taken by a folder that is not empty: the rename must fail.
  const auto path = folder.path() / "taken";
  std::filesystem::create_directories(path / "inside");
  expect_throws<IoError>([&] { write_file_atomically(path, "x"); },
                         {path.string()});
  EXPECT_EQ(folder.names(), std::vector<std::string>{"taken"});
  EXPECT_THROW(write_file_atomically(folder.path() / "no" / "file", "x"),
               IoError);
}

// Exits with 0 if the write failed. A file size limit makes writes fail like a
// full disk.
[[noreturn]] void write_beyond_a_limit(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
  try {
    write_file_atomically(path, std::string(100000, 'x'));
  } catch (const IoError&) {
    std::exit(0);
  }
  std::exit(1);
}

TEST(AtomicFile, AFullDiskKeepsTheOldContent) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_file_atomically(path, "old");
  EXPECT_EXIT(write_beyond_a_limit(path), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

// A stranger who guesses the temporary name makes it a link to another file.
TEST(AtomicFile, LinksInPlaceOfTheTemporaryFileAreNotFollowed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file", victim = folder.path() / "victim";
  std::ofstream(victim) << "mine";
  for (int i = 0; i < 100; ++i)
    std::filesystem::create_symlink(
        victim, concat(path.string(), ".tmp.", ::getpid(), ".", i));
  write_file_atomically(path, "new");
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(content_of(victim), "mine");
}

TEST(AtomicFile, ADeviceIsWrittenToAndNotReplaced) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const TemporaryFolder folder;
  const auto path = folder.path() / "device";
  std::filesystem::create_symlink("/dev/full", path);
  expect_throws<IoError>([&] { write_file_atomically(path, "x"); },
                         {path.string(), "No space left"});
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  write_file_atomically(path, "x");
  EXPECT_TRUE(std::filesystem::is_symlink(path));
}

TEST(TemporaryName, DiffersAndIsRecognized) {
  const auto one = temporary_name("a/b.json"),
             other = temporary_name("a/b.json");
  EXPECT_NE(one, other);
  EXPECT_EQ(std::filesystem::path(one).parent_path(), "a");
  EXPECT_TRUE(is_temporary(one));
  EXPECT_TRUE(is_temporary("config.yaml.tmp.1234.0"));
  for (const char* name : {"b.json", "b.tmp.", "b.tmp.x", ".tmp.12", "b.tmp"})
    EXPECT_FALSE(is_temporary(name)) << name;
}

TEST(CreateFolders, CreatesAllParents) {
  const TemporaryFolder folder;
  for (const char* name : {"a/b/c", "a/b/c", "d/e/", "."})
    create_folders(folder.path() / name);
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "d/e"));
  std::ofstream(folder.path() / "file") << "x";
  for (const char* name : {"file", "file/below"})
    expect_throws<IoError>([&] { create_folders(folder.path() / name); },
                           {(folder.path() / "file").string()});
}

TEST(EntriesOf, AreSortedByName) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a/inner", ".c"})
    create_folders(folder.path() / name);
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder.path()))
    names.push_back(entry.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{".c", "a", "b"}));
}

TEST(EntriesOf, AFailureNamesTheFolder) {
  expect_throws<IoError>([] { entries_of("/no/such/folder"); },
                         {"cannot read the folder /no/such/folder: "});
}

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

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_file_atomically(path, "12345");
  EXPECT_EQ(read_file(path, 5), "12345");
  expect_throws<IoError>([&] { read_file(path, 4); },
                         {"file: it has more than 4 bytes", "right file"});
  // Has no end.
  expect_throws<IoError>([] { read_file("/dev/zero", 1 << 20); },
                         {"/dev/zero", "more than 1048576 bytes"});
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path, 0), "");
}

TEST(ReadFile, AFileThatDoesNotFitIntoMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process instead";
#endif
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_file_atomically(path, "");
  std::error_code unsupported;  // by this file system
  std::filesystem::resize_file(path, std::uintmax_t{1} << 43, unsupported);
  if (unsupported) GTEST_SKIP() << "no sparse files of 8 TiB here";
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit small{rlim_t{1} << 42, before.rlim_max};
  setrlimit(RLIMIT_AS, &small);
  expect_throws<IoError>([&] { read_file(path); },
                         {"file: it has at least", "fit into memory"});
  setrlimit(RLIMIT_AS, &before);
}

TEST(RemoveTree, TakesEverythingBelowAndNothingBeside) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a";
  std::filesystem::create_directories(path / "b" / "c");
  std::ofstream(path / "b" / "x") << "x";
  std::ofstream(folder.path() / "kept") << "x";
  std::filesystem::create_symlink(folder.path() / "kept", path / "link");
  remove_tree(path);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "kept"));
  remove_tree(path);  // again: nothing to remove
  remove_tree(folder.path() / "kept");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "kept"));
}

}  // namespace

}  // namespace sheaf
