#include <gtest/gtest.h>

#include "sheaf/plan/predict/cluster.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::plan {
namespace {

class SharedHost : public testing::Test {
 protected:
  SharedHost() : recorded_(profiles()) {}
  static std::vector<StepProfile> profiles() {
    std::vector<StepProfile> list;
    list.push_back(read_profile(
        ModelTrace(small_model(), uniform(Precision::kF32), true).write()));
    list[0].model.device = "cpu";
    return list;
  }
  // Workers on a host of two cores.
  Cluster cluster_of(int workers, const topo::Contention& contention) const {
    Cluster cluster;
    cluster.kinds.push_back({&recorded_, {}, workers, 1});
    cluster.machine.hosts = {{"a", 1, 2, 0}};
    cluster.machine.contention = contention;
    cluster.placement = topo::placement_of(topo::Dims{{workers}});
    share_host(cluster);
    return cluster;
  }
  std::int64_t peak() const {
    return mix_memory(recorded_, uniform(Precision::kF32)).peak();
  }
  Recorded recorded_;
};

TEST_F(SharedHost, WorkersBeyondTheCoresTakeTurns) {
  EXPECT_DOUBLE_EQ(cluster_of(1, {}).kinds[0].slowdown, 1);
  EXPECT_FALSE(cluster_of(1, {}).exchange.is_inline);
  EXPECT_DOUBLE_EQ(cluster_of(2, {}).kinds[0].slowdown, 1);
  EXPECT_TRUE(cluster_of(2, {}).exchange.is_inline);
  EXPECT_DOUBLE_EQ(cluster_of(4, {}).kinds[0].slowdown, 2);
}

TEST_F(SharedHost, DataTooMuchForTheCachesIsContendedFor) {
  const topo::Contention felt{2, peak(), 1.2}, not_felt{2, peak() + 1, 1.2};
  EXPECT_DOUBLE_EQ(cluster_of(1, felt).kinds[0].change.memory, 1);
  EXPECT_DOUBLE_EQ(cluster_of(2, felt).kinds[0].change.memory, 1 / 1.2);
  EXPECT_DOUBLE_EQ(cluster_of(4, felt).kinds[0].change.memory, 1 / 1.6);
  EXPECT_DOUBLE_EQ(cluster_of(4, not_felt).kinds[0].change.memory, 1);
  EXPECT_DOUBLE_EQ(cluster_of(4, felt).kinds[0].change.compute, 1);
}

// Next to a worker on a GPU, a worker on the cores does not share the caches.
TEST_F(SharedHost, AWorkerOnAGpuTakesNoCaches) {
  std::vector<StepProfile> list = profiles();
  list[0].model.device = "cuda";
  const Recorded gpu(std::move(list));
  Cluster cluster = cluster_of(1, {2, peak(), 1.2});
  cluster.kinds.push_back({&gpu, {}, 1, 1});
  cluster.placement = topo::placement_of(topo::Dims{{2}});
  share_host(cluster);
  for (const WorkerKind& kind : cluster.kinds) {
    EXPECT_DOUBLE_EQ(kind.change.memory, 1);
    EXPECT_DOUBLE_EQ(kind.slowdown, 1);
  }
}

}  // namespace
}  // namespace sheaf::plan
