#include <gtest/gtest.h>

#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

constexpr const char* kTwoConvolutions = R"(
data:
  name: synthetic
  arguments: {examples: 8, test_examples: 8, classes: 3, shape: [1, 8, 12]}
  workers: 1
network:
  name: layers
  arguments: {input: [1, 8, 12]}
  layers:
    - conv2d: {out_channels: 4, kernel: 3, padding: 1}
    - relu
    - conv2d: {out_channels: 2, kernel: 5, padding: 2}
    - flatten
    - linear: {out_features: 3}
optimizer: {name: sgd, learning_rate: 0.1}
parallel: {strategy: spatial, grid: 2x2}
epochs: 1
global_batch: 8
threads: 1
)";

std::string explanation(const char* description, int ranks) {
  const RunConfig config = complete(parse_config(description, "two.yaml", {}));
  std::ostringstream text;
  comm::run_threads(ranks, [&](const comm::Group& group) {
    std::ostringstream nothing;
    explain(group, config, group.rank() == 0 ? text : nothing);
  });
  return text.str();
}

// Returns messages and bytes of a layer's row.
std::string traffic_in(const std::string& text, const std::string& operation) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(operation + "  ", 0) != 0) continue;
    std::istringstream words(line);
    std::vector<std::string> all;
    for (std::string word; words >> word;) all.push_back(word);
    return all[all.size() - 4] + " " + all[all.size() - 3];
  }
  return "no " + operation + " in\n" + text;
}

// Tiles of 4x6 have a neighbor on one side of each axis and at one corner; a
// halo of width r has (6 r + 4 r + r r) pixels, for 8 samples in f32.
TEST(Explain, ReportsTheCostOfHalos) {
  const std::string text = explanation(kTwoConvolutions, 4);
  const auto bytes = [](int reach, int channels) {
    return concat("3 ", (10 * reach + reach * reach) * 8 * channels * 4);
  };
  EXPECT_EQ(traffic_in(text, "convolution of 0.weight"), bytes(1, 1));
  EXPECT_EQ(traffic_in(text, "convolution of 2.weight"), bytes(2, 4));
}

}  // namespace
}  // namespace sheaf::train
