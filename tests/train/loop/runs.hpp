#pragma once
// Small runs for tests: synthetic data, small networks, a folder for all ranks.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <memory>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::train {

// 22 examples in batches of 8 leave 6 for the last batch: shares are uneven.
inline const char* const kSmallRun = R"(
data:
  name: synthetic
  arguments: {examples: 22, test_examples: 10, classes: 3, shape: [1, 4, 4]}
  workers: 1
network: {name: mlp, arguments: {sizes: [16, 8, 3]}}
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9}
schedule: {name: cosine, warmup_epochs: 0.5}
epochs: 4
global_batch: 8
seed: 5
threads: 1
output: {log_every: 5}
)";

inline RunConfig small_run(const std::vector<std::string>& sets = {}) {
  return complete(parse_config(kSmallRun, "small.yaml", sets));
}

// One folder that all ranks of the group know; rank 0 removes it.
class SharedFolder {
 public:
  explicit SharedFolder(const comm::Group& group) : group_(group) {
    if (group.rank() == 0) mine_ = std::make_unique<TemporaryFolder>();
    path_ = from_root(group, [this] { return mine_->path().string(); });
  }
  ~SharedFolder() { comm::barrier(group_).wait(); }

  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  const comm::Group& group_;
  std::unique_ptr<TemporaryFolder> mine_;
  std::filesystem::path path_;
};

inline RunResult run_in(const comm::Group& group, const std::string& folder,
                        RunConfig config, TrainOptions options = {}) {
  config.output.folder = folder;
  options.config_name = "small.yaml";
  return run(group, config, options);
}

// The config's network, which requests its own rank to stop in the n-th
// forward.
inline Model stopping_model(const RunConfig& config, int forwards) {
  Model model = make_model(config);
  auto count = std::make_shared<int>(0);
  const auto forward = model.forward;
  model.forward = [=](const torch::Tensor& input) {
    if (++*count == forwards) ::raise(SIGUSR1);
    return forward(input);
  };
  return model;
}

using test::has_same_bits;
using test::largest_difference;

inline std::vector<std::string> lines_in(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Every file in a folder with its contents, including links.
inline std::map<std::string, std::string> content_of(
    const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_symlink())
      files[name] = fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file())
      files[name] = read_whole(entry.path());
  }
  return files;
}

inline void expect_untouched(const std::map<std::string, std::string>& before,
                             const std::filesystem::path& folder) {
  const auto after = content_of(folder);
  for (const auto& [name, text] : before) {
    ASSERT_TRUE(after.contains(name)) << name << " is gone";
    EXPECT_TRUE(after.at(name) == text) << name << " has changed";
  }
  for (const auto& [name, text] : after)
    EXPECT_TRUE(before.contains(name)) << name << " is new";
}

inline void with_one_rank(const std::function<void(const comm::Group&)>& body) {
  comm::run_threads(1, body);
}

}  // namespace sheaf::train
