#include "tests/parallel/dad/dad_training.hpp"
#include "tests/support/world.hpp"

// dAD on processes; see dad_parallel_test.cpp for ranks as threads.
namespace sheaf::parallel {
namespace {

using namespace test;
using sheaf::test::world;

template <class Net>
void expect_same(const std::function<std::shared_ptr<Net>()>& make,
                 const Setting& setting, double tolerance) {
  const auto together = train_together(make, setting, world());
  if (world().rank() == 0)
    EXPECT_LE(distance(together, train_alone(make, setting)), tolerance);
}

TEST(DadRanks, GivesTheWeightsOfOneProcess) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    for (const Where where : {Where::kAllGather, Where::kStar}) {
      const Setting setting{.options = {.where = where, .overlap = overlap}};
      expect_same(maker<PlainNetImpl>(true), setting, 1e-12);
      expect_same(maker<SharedNetImpl>(), setting, 1e-12);
      expect_same(maker<SequenceNetImpl>(), setting, 1e-12);
    }
}

TEST(DadRanks, ComputesDeltas) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
    const DadOptions options{.mode = DadMode::kEdad, .overlap = overlap};
    expect_same(maker<MlpImpl>(), {.options = options}, 1e-12);
    expect_same(maker<MlpImpl>(), {.type = at::kFloat, .options = options},
                1e-5);
  }
}

// Whatever the choice from the measured times is.
TEST(DadRanks, ChoosesByTime) {
  auto net = make_net(maker<MlpImpl>(), at::kDouble, 1);
  DadParallel model(net, world(), {.mode = DadMode::kAuto});
  for (int step = 0; step < 3; ++step) {
    const Examples mine = share_of(examples(step, kBatch, at::kDouble),
                                   world().rank(), world().size());
    part_of_loss(model.forward(mine.data), mine, 5).backward();
  }
  if (world().size() == 1) return;
  const auto routes = model.routes();
  ASSERT_EQ(routes.size(), 6);
  for (const auto& route : routes)
    if (route.name.find("weight") != std::string::npos)
      EXPECT_TRUE(route.reason.rfind("by predicted time: ", 0) == 0 ||
                  route.route == "edad")
          << route.reason;
}

}  // namespace
}  // namespace sheaf::parallel
