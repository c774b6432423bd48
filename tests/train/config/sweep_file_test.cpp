#include "sheaf/train/config/sweep_file.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

std::string sweep_error(const std::string& text) {
  return error_of<UsageError>(
      [&] { make_grid(parse_sweep_file("base: a.yaml\n" + text, "s.yaml")); });
}

std::string list_of(const std::string& prefix, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += prefix + std::to_string(i) + ", ";
  return "[" + list + "]";
}

TEST(SweepFiles, GiveAllCombinations) {
  const SweepFile file = parse_sweep_file(
      "base: a.yaml\nranks: [1, 2]\nset: {epochs: [1, 2, 3], seed: "
      "\"x\\r\\ny\"}\n"
      "skip: [{ranks: 2, epochs: [1, 2]}, {epochs: 3, ranks: 1}]\n",
      "dir/s.yaml");
  EXPECT_EQ(file.base, "dir/a.yaml");
  const auto jobs = make_grid(file);
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[2].ranks, 2);
  EXPECT_EQ(jobs[2].overrides(),
            (std::vector<std::string>{"epochs=3", "seed=\"x\\r\\ny\""}));
}

// "ranks" as a key of the config was read as the number of ranks.
TEST(SweepFiles, TheirOwnKeysAreNotKeysOfTheConfig) {
  EXPECT_NE(sweep_error("set: {ranks: [many]}\n")
                .find("s.yaml:2: ranks is not a key of the config"),
            std::string::npos);
  EXPECT_NE(sweep_error("cases: {a: {repeat: 2}}\n"), "");
}

TEST(SweepFiles, SkipsThatMatchNothingAreErrors) {
  EXPECT_NE(sweep_error("set: {epochs: [1, 2]}\nskip: [{epochs: 3}]\n")
                .find("matches no job"),
            std::string::npos);
  EXPECT_NE(sweep_error("set: {epochs: [1, 2]}\n"
                        "skip: [{epochs: [1, 2]}, {epochs: 1}]\n")
                .find("matches no job"),
            std::string::npos);
  EXPECT_NE(sweep_error("set: {epochs: [1, 2]}\nskip: [{epochs: [1, 2]}]\n")
                .find("excludes all jobs"),
            std::string::npos);
}

// Files of a megabyte that would fill the memory or take hours.
TEST(SweepFiles, AreBounded) {
  EXPECT_NE(sweep_error("ranks: " + list_of("1", 50'000) +
                        "\nset: {seed: " + list_of("", 50'000) + "}\n")
                .find("more than 100000 combinations"),
            std::string::npos);
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += "  k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(sweep_error("repeat: 10000\nset:\n" + keys).find("10000000 values"),
            std::string::npos);
  EXPECT_NE(sweep_error("repeat: 10000\nset: {seed: [1, 2]}\nskip: [{seed: " +
                        list_of("", 20'000) + "}]\n")
                .find("20000 values to compare with each of 20000 jobs"),
            std::string::npos);
  EXPECT_NE(sweep_error("name: " + std::string(2000, 'x') + "\n")
                .find("more than 1000 characters"),
            std::string::npos);
  EXPECT_NE(sweep_error("set: {seed: &a [1, *a]}\n").find("contains itself"),
            std::string::npos);
}

}  // namespace
}  // namespace sheaf::train
