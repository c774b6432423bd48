#include "sheaf/cli/command/commands.hpp"

#include "tests/cli/call_sheaf.hpp"

namespace sheaf::cli {
namespace {

TEST(Commands, VersionAndHelp) {
  const CallOutcome version = call_sheaf({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("sheaf ", 0), 0u);
  const CallOutcome help = call_sheaf({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("run"), std::string::npos);
  EXPECT_EQ(help.out.find("rank-exec"), std::string::npos);
  EXPECT_EQ(call_sheaf({"run", "--help"}).code, 0);
}

TEST(Commands, MistakesGiveTwo) {
  EXPECT_EQ(call_sheaf({}).code, 2);
  const CallOutcome unknown = call_sheaf({"rnu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean 'run'"), std::string::npos)
      << unknown.err;
  EXPECT_EQ(call_sheaf({"--no-such-option"}).code, 2);
  const CallOutcome value = call_sheaf({"run", "-n", "many", "--", "true"});
  EXPECT_EQ(value.code, 2);
  EXPECT_EQ(value.err.rfind("sheaf: ", 0), 0u) << value.err;
  EXPECT_NE(value.err.find("sheaf run --help"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::cli
