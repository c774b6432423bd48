#include "sheaf/cli/commands.hpp"

#include <gtest/gtest.h>

namespace sheaf::cli {
namespace {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome call(std::vector<const char*> words) {
  words.insert(words.begin(), "sheaf");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_cli(static_cast<int>(words.size()), words.data());
  return {code, testing::internal::GetCapturedStdout(),
          testing::internal::GetCapturedStderr()};
}

TEST(Commands, VersionAndHelp) {
  const Outcome version = call({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("sheaf ", 0), 0u);
  const Outcome help = call({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("run"), std::string::npos);
  EXPECT_EQ(help.out.find("rank-exec"), std::string::npos);
  EXPECT_EQ(call({"run", "--help"}).code, 0);
}

TEST(Commands, MistakesGiveTwo) {
  EXPECT_EQ(call({}).code, 2);
  const Outcome unknown = call({"rnu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean 'run'"), std::string::npos)
      << unknown.err;
  EXPECT_EQ(call({"--no-such-option"}).code, 2);
  const Outcome value = call({"run", "-n", "many", "--", "true"});
  EXPECT_EQ(value.code, 2);
  EXPECT_EQ(value.err.rfind("sheaf: ", 0), 0u) << value.err;
  EXPECT_NE(value.err.find("sheaf run --help"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::cli
