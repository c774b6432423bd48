#include "sheaf/train/trace/recording.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

TEST(Recording, RanksHaveFilesOfTheirOwn) {
  EXPECT_EQ(file_of_rank("t/a.json.gz", 0, 1), "t/a.json.gz");
  EXPECT_EQ(file_of_rank("t/a.json.gz", 2, 3), "t/a.rank2.json.gz");
  EXPECT_EQ(file_of_rank("a.json", 0, 2), "a.rank0.json");
}

// Nothing is recorded: the last check fails in each case.
TEST(Recording, WrongOptionsAreReported) {
  with_one_rank([](const comm::Group& group) {
    const RunConfig config = small_run();
    const auto is_reported = [&](const RecordingOptions& options,
                                 std::initializer_list<std::string> words) {
      expect_throws<UsageError>([&] { record(group, config, options); }, words);
    };
    is_reported({.file = "a.json", .curvature = -1}, {"--curvature -1"});
    // 0 and more samples are valid, so that the name is checked.
    for (const int samples : {0, 1})
      is_reported({.file = "a.txt", .curvature = samples},
                  {"must end in .json or .json.gz", "'a.txt'"});
    is_reported({.file = "a.json", .steps = 0},
                {"0 steps", "--steps 1 or more"});
    is_reported({.file = "a.json", .warmup = -1}, {"a warm-up of -1"});
  });
}

TEST(Recording, CurvatureNeedsLayers) {
  with_one_rank([](const comm::Group& group) {
    expect_throws<UsageError>(
        [&] {
          record(group, small_run({"precision=bf16"}),
                 {.file = "a.json", .curvature = 1});
        },
        {"--curvature is reported by layer", "precision: bf16"});
  });
}

}  // namespace
}  // namespace sheaf::train
