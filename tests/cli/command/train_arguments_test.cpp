#include "sheaf/cli/command/train_arguments.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sheaf::cli {
namespace {

TrainArguments read_back(std::vector<std::string> words) {
  CLI::App app;
  TrainArguments arguments;
  add_train_rank_options(app, arguments);
  words.erase(words.begin());                // the name of the command
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(words);
  return arguments;
}

TEST(TrainArgumentsOfRanks, AreReadAsTheyWereWritten) {
  TrainArguments given;
  given.config = "a.yaml";
  given.sets = {"epochs=3", "parallel={strategy: dad}"};
  given.output = "runs/a";
  given.plan = "plan.json";
  given.is_resumed = given.explains = true;
  given.progress_place = "2:80";
  const TrainArguments read = read_back(rank_words(given));
  EXPECT_EQ(read.config, given.config);
  EXPECT_EQ(read.sets, given.sets);
  EXPECT_EQ(read.output, given.output);
  EXPECT_EQ(read.plan, given.plan);
  EXPECT_TRUE(read.is_resumed);
  EXPECT_FALSE(read.accepts_changes);
  EXPECT_FALSE(read.prints_config);
  EXPECT_TRUE(read.explains);
  EXPECT_EQ(read.progress_place, given.progress_place);
}

TEST(TrainArgumentsOfRanks, ThatAreNotGivenAreNotWritten) {
  TrainArguments given;
  given.config = "a.yaml";
  EXPECT_EQ(rank_words(given), (std::vector<std::string>{"train", "a.yaml"}));
}

}  // namespace
}  // namespace sheaf::cli
