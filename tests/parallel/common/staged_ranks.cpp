#include "tests/parallel/common/staged_training.hpp"
#include "tests/support/world.hpp"

namespace sheaf::parallel {
namespace {

TEST(MixedDevices, ProcessesThatStageAndThoseThatDoNotAgree) {
  const comm::Group group =
      sheaf::test::world().split(0, sheaf::test::world().rank());
  if (group.size() == 1) GTEST_SKIP() << "there is nobody to agree with";
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
    test::train_staged(group, group.rank() == 0, {.overlap = overlap}, 2);
    test::train_staged(group, group.rank() != 0, {.overlap = overlap}, 2);
    test::train_staged(group, true, {.overlap = overlap}, 1);
    test::train_staged(
        group, group.rank() == 0,
        {.overlap = overlap, .exchange = make_half_exchange(at::kBFloat16)}, 1);
  }
}

}  // namespace
}  // namespace sheaf::parallel
