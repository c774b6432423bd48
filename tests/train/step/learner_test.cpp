#include "sheaf/train/step/learner.hpp"

#include <gtest/gtest.h>

#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

// As dropout and batch normalization need it.
TEST(Learner, SetsTheModeOfAllModules) {
  with_one_rank([](const comm::Group& group) {
    const RunConfig config = small_run();
    Learner learner(config, make_model(config), group);
    for (const bool is_on : {false, true, false}) {
      learner.set_training(is_on);
      for (const auto& module : learner.module().modules())
        EXPECT_EQ(module->is_training(), is_on) << module->name();
    }
  });
}

}  // namespace
}  // namespace sheaf::train
