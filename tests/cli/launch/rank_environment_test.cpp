#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "sheaf/cli/launch/launcher.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::cli {
namespace {

using Entries = std::map<std::string, std::string>;

class RankEnvironmentTest : public testing::Test {
 protected:
  Entries entries() const {
    Entries result;
    for (const std::string& entry : rank_environment(options_, place_)) {
      const std::size_t equals = entry.find('=');
      result[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    return result;
  }

  test::ScopedVariables clean_{
      {"SHEAF_SECRET", "SHEAF_SECRET_FILE", "SHEAF_JOB", "SHEAF_OPTIONS"}};
  LaunchOptions options_;
  RankPlacement place_;
};

TEST_F(RankEnvironmentTest, EveryRunHasItsOwnSecretAndJob) {
  const Entries first = entries();
  const Entries second = entries();
  EXPECT_EQ(first.size(), 2U);
  EXPECT_EQ(first.at("SHEAF_SECRET").size(), 64U);
  EXPECT_NE(first.at("SHEAF_SECRET"), second.at("SHEAF_SECRET"));
  EXPECT_NE(first.at("SHEAF_JOB"), second.at("SHEAF_JOB"));
}

TEST_F(RankEnvironmentTest, TheUsersSecretAndJobAreKept) {
  clean_.set({{"SHEAF_SECRET_FILE", "secret"}, {"SHEAF_JOB", "mine"}});
  EXPECT_TRUE(entries().empty());
}

TEST_F(RankEnvironmentTest, TheInterfaceOfTheHostsIsUsedByAll) {
  options_.interface = "eth1";
  EXPECT_EQ(entries().at("SHEAF_INTERFACE"), "eth1");
}

TEST_F(RankEnvironmentTest, EncryptedRanksMeetAtTheFirstHost) {
  options_.encrypts = true;
  EXPECT_EQ(entries().at("MASTER_ADDR"), "127.0.0.1");
  place_.request.is_local = false;
  place_.request.hosts = {{"a1", 2}, {"a2", 2}};
  const Entries result = entries();
  EXPECT_EQ(result.at("SHEAF_ENCRYPT"), "1");
  EXPECT_EQ(result.at("MASTER_ADDR"), "a1");
  const int port = std::stoi(result.at("MASTER_PORT"));
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 30000);
}

TEST_F(RankEnvironmentTest, TheSecretIsExportedButNotPrinted) {
  const std::vector<std::string> environment{"SHEAF_JOB=it's mine",
                                             "SHEAF_SECRET=0123456789abcdef"};
  EXPECT_EQ(text_of_environment(environment), "SHEAF_JOB='it'\\''s mine' ");
  const auto names = names_to_export(environment);
  for (const char* name : {"SHEAF_JOB", "SHEAF_SECRET"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

}  // namespace
}  // namespace sheaf::cli
