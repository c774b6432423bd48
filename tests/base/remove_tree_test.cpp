#include "sheaf/base/remove_tree.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.hpp"

namespace sheaf {
namespace {

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
