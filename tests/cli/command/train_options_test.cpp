#include "sheaf/cli/command/train_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sheaf::cli {
namespace {

TrainArguments read_back(std::vector<std::string> words) {
  CLI::App app;
  TrainArguments arguments;
  add_train_options(app, arguments);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(words);
  return arguments;
}

TEST(TrainOptions, AreReadAsTheyWereWritten) {
  TrainArguments given;
  given.config = "a.yaml";
  given.sets = {"epochs=3", "parallel={strategy: dad}"};
  given.output = "runs/a";
  given.plan = "plan.json";
  given.is_resumed = given.explains = true;
  const TrainArguments read = read_back(train_words(given));
  EXPECT_EQ(read.config, given.config);
  EXPECT_EQ(read.sets, given.sets);
  EXPECT_EQ(read.output, given.output);
  EXPECT_EQ(read.plan, given.plan);
  EXPECT_TRUE(read.is_resumed);
  EXPECT_FALSE(read.accepts_changes);
  EXPECT_FALSE(read.prints_config);
  EXPECT_TRUE(read.explains);
}

TEST(TrainOptions, ThatAreNotGivenAreNotWritten) {
  TrainArguments given;
  given.config = "a.yaml";
  EXPECT_EQ(train_words(given), std::vector<std::string>{"a.yaml"});
}

}  // namespace
}  // namespace sheaf::cli
