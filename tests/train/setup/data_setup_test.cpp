#include "sheaf/train/setup/data_setup.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image_folder.hpp"
#include "sheaf/formats/images/image.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/missing.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using data::Bytes;

// Classes differ in brightness: dark, gray, white. They differ enough for a
// small network to learn them in a few steps.
struct Shade {
  const char* name;
  std::uint8_t brightness;
};
constexpr Shade kShades[] = {{"dark", 10}, {"gray", 128}, {"white", 250}};

void write_image(const fs::path& path, std::uint8_t brightness) {
  fs::create_directories(path.parent_path());
  data::write_bytes(path.string(),
                    data::png_bytes(4, 4, 1, Bytes(16, brightness)));
}

void write_shade(const fs::path& split, const Shade& shade, int images) {
  for (int i = 0; i < images; ++i)
    write_image(split / shade.name / concat(i, ".png"),
                static_cast<std::uint8_t>(shade.brightness + i % 5));
}

RunConfig run_on(const std::string& name, const fs::path& folder,
                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = {
      "data={name: " + name + ", folder: " + folder.string() + ", workers: 1}",
      "network.arguments.sizes=[48, 16, 3]", "epochs=20"};
  sets.insert(sets.end(), more.begin(), more.end());
  return small_run(sets);
}

class ImageRun : public testing::Test {
 protected:
  void SetUp() override {
    if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
    for (const Shade& shade : kShades) write_shade(set_ / "train", shade, 8);
  }
  const TemporaryFolder folder_;
  const fs::path set_ = folder_.path() / "set";
};

TEST_F(ImageRun, LearnsTheFoldersOfClasses) {
  for (const Shade& shade : kShades) write_shade(set_ / "test", shade, 2);
  with_one_rank([&](const comm::Group& group) {
    const auto result =
        run_in(group, folder_.path() / "run", run_on("images", set_));
    EXPECT_EQ(result.test->accuracy, 1);
  });
}

// Without the names of the training set, the only class would be class 0.
TEST_F(ImageRun, ATestWithoutAClassKeepsTheNumbers) {
  write_shade(set_ / "test", kShades[2], 6);
  with_one_rank([&](const comm::Group& group) {
    const auto result =
        run_in(group, folder_.path() / "run", run_on("images", set_));
    EXPECT_EQ(result.test->accuracy, 1);
  });
}

TEST_F(ImageRun, AnUnknownClassIsAnErrorThatNamesIt) {
  write_shade(set_ / "test", {"Gray", 128}, 2);
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] { run_in(group, folder_.path() / "run", run_on("images", set_)); },
        {"'Gray'", "dark, gray, white"});
  });
  EXPECT_FALSE(fs::exists(folder_.path() / "run"));
}

// For data opened by the caller, the trainer compares the names.
TEST_F(ImageRun, OtherClassesInDataThatIsGivenAreAnError) {
  write_shade(set_ / "test", kShades[2], 2);
  const auto open = [&](const char* split) {
    return std::make_shared<data::ImageFolder>((set_ / split).string());
  };
  for (const bool is_test : {true, false}) {
    TrainOptions options;
    options.data = DataSets{open("train"), open(is_test ? "train" : "test"),
                            open(is_test ? "test" : "train"), nullptr, nullptr};
    with_one_rank([&](const comm::Group& group) {
      expect_throws<UsageError>(
          [&] {
            run_in(group, folder_.path() / "run", run_on("images", set_),
                   options);
          },
          {is_test ? "test set" : "validation set", "class 0", "'dark'",
           "'white'", "class_names"});
    });
  }
}

TEST_F(ImageRun, ResumesWithTheSameClassesOnly) {
  for (const Shade& shade : kShades) write_shade(set_ / "test", shade, 2);
  const fs::path run = folder_.path() / "run";
  const RunConfig config = run_on("images", set_);
  with_one_rank([&](const comm::Group& group) {
    TrainOptions options;
    options.model = stopping_model(config, 5);
    EXPECT_EQ(run_in(group, run, config, options).ending,
              Ending::kStoppedBySignal);
  });
  const auto state = nlohmann::json::parse(
      read_whole(run / "checkpoints" / "latest" / "state.json"));
  EXPECT_EQ(state["class_names"],
            (std::vector<std::string>{"dark", "gray", "white"}));
  const auto rename = [&](const char* from, const char* to) {
    for (const char* split : {"train", "test"})
      fs::rename(set_ / split / from, set_ / split / to);
  };
  TrainOptions options;
  options.is_resumed = true;
  rename("gray", "silver");
  with_one_rank([&](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] { run_in(group, run, config, options); },
        {"checkpoint", "class 1", "'gray'", "'silver'", "start a new run"});
  });
  rename("silver", "gray");
  with_one_rank([&](const comm::Group& group) {
    EXPECT_EQ(run_in(group, run, config, options).ending, Ending::kFinished);
  });
}

TEST_F(ImageRun, ExamplesOfAClassBelongToOneRank) {
  for (const Shade& shade : kShades) write_shade(set_ / "test", shade, 2);
  comm::run_threads(3, [&](const comm::Group& group) {
    const SharedFolder folder(group);
    RunConfig config = run_on("images", set_, {"data.sites=by_class"});
    DataSets sets = open_data(config);
    const data::Sites sites = sites_by_class(*sets.train, group.size());
    for (std::int64_t i = 0; i < sets.train->size(); ++i)
      EXPECT_EQ(sites->at(static_cast<std::size_t>(i)), i / 8);
    const auto result = run_in(group, folder / "run", config);
    EXPECT_EQ(result.steps, 60);
    EXPECT_EQ(result.test->accuracy, 1);
  });
}

class NpyRun : public testing::Test {
 protected:
  // Writes rows that consist of the class number, and targets.
  void write(const char* split, const std::vector<std::int64_t>& labels) {
    const at::Tensor targets = torch::tensor(labels);
    const at::Tensor rows = targets.to(torch::kFloat).view({-1, 1}) - 1;
    tensor::save_npy(file(concat(split, "_data.npy")), rows.expand({-1, 48}));
    tensor::save_npy(file(concat(split, "_target.npy")), targets);
  }
  fs::path file(const std::string& name) const { return folder_.path() / name; }

  const TemporaryFolder folder_;
  const std::vector<std::int64_t> labels_ = {0, 1, 2, 2, 1, 0, 0, 1, 2, 0, 1};
};

TEST_F(NpyRun, LearnsArrays) {
  write("train", labels_);
  write("test", {2, 2, 0});
  for (const char* sites : {"shared", "by_class"})
    comm::run_threads(2, [&](const comm::Group& group) {
      const SharedFolder folder(group);
      const auto result =
          run_in(group, folder / "run",
                 run_on("npy", folder_.path(), {concat("data.sites=", sites)}));
      EXPECT_EQ(result.test->accuracy, 1) << sites;
    });
}

// Fewer classes are allowed: labels are numbers that mean the same in both
// sets.
TEST_F(NpyRun, ATestMayHaveFewerClassesButNotMore) {
  write("train", labels_);
  write("test", {0, 1});
  EXPECT_EQ(open_data(run_on("npy", folder_.path())).test->classes(), 2);
  write("test", {0, 3});
  expect_throws<UsageError>([&] { open_data(run_on("npy", folder_.path())); },
                            {"test set has 4 classes", "only 3"});
}

TEST_F(NpyRun, SitesByClassNeedAClassForEachRank) {
  write("train", labels_);
  const DataSets sets = [&] {
    write("test", {0});
    return open_data(run_on("npy", folder_.path()));
  }();
  const data::Sites sites = sites_by_class(*sets.train, 2);
  for (std::size_t i = 0; i < labels_.size(); ++i)
    EXPECT_EQ(sites->at(i), labels_[i] * 2 / 3);
  expect_throws<UsageError>([&] { sites_by_class(*sets.train, 4); },
                            {"4 ranks", "3 classes"});
}

TEST_F(NpyRun, FilesThatAreCutAreErrorsWithTheirName) {
  for (const char* name : {"train_data.npy", "train_target.npy"}) {
    write("train", labels_);
    write("test", {0});
    fs::resize_file(file(name), fs::file_size(file(name)) - 1);
    expect_throws<IoError>([&] { open_data(run_on("npy", folder_.path())); },
                           {name});
  }
}

}  // namespace
}  // namespace sheaf::train
