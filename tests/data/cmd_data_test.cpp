// The command `sheaf data`, run in this process.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <iostream>

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

using data::contains;

class DataCommand : public testing::Test {
 protected:
  void SetUp() override { setenv("SHEAF_DATA", folder_.path().c_str(), 1); }
  void TearDown() override { unsetenv("SHEAF_DATA"); }

  // The output of `sheaf data ...`.
  std::string run(const std::string& arguments) const {
    CLI::App app;
    add_data_command(app);
    std::ostringstream text;
    std::streambuf* before = std::cout.rdbuf(text.rdbuf());
    try {
      app.parse("data " + arguments);
    } catch (...) {
      std::cout.rdbuf(before);
      throw;
    }
    std::cout.rdbuf(before);
    return text.str();
  }

  TemporaryFolder folder_;
};

TEST_F(DataCommand, ListsWhatThereIs) {
  const std::string text = run("list");
  EXPECT_TRUE(contains(text, "cifar100")) << text;
  EXPECT_TRUE(contains(text, "sheaf data get mnist")) << text;
  const std::string json = run("list --json");
  EXPECT_TRUE(contains(json, "\"dataset\": \"mnist\"")) << json;
  EXPECT_TRUE(contains(json, "\"where\": null")) << json;
}

TEST_F(DataCommand, GetsFashionMnist) {
  const std::string folder = data::find_dataset("fashion-mnist");
  if (folder.empty())
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  const std::string text = run("get fashion-mnist");
  EXPECT_TRUE(contains(text, folder)) << text;
  EXPECT_TRUE(contains(text, "b4f29f28")) << text;
  EXPECT_TRUE(contains(text, "60000 training")) << text;
}

TEST_F(DataCommand, ReportsErrors) {
  EXPECT_THROW(run("get nothing"), UsageError);
  EXPECT_THROW(run("get cifar10"), IoError);
  EXPECT_THROW(run("get"), CLI::ParseError);
  EXPECT_THROW(run(""), CLI::ParseError);
}

}  // namespace
}  // namespace sheaf::cli
