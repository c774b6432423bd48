#include "sheaf/plan/predict/cluster.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::plan {
namespace {

class Timelines : public testing::Test {
 protected:
  static StepProfile profile_of(const PrecisionPlan& plan, bool is_uniform) {
    return read_profile(ModelTrace(small_model(), plan, is_uniform).write());
  }
  static Recorded record() {
    std::vector<StepProfile> profiles;
    for (const Precision one : {Precision::kF32, Precision::kBf16})
      profiles.push_back(profile_of(uniform(one), true));
    return Recorded(std::move(profiles));
  }
  Cluster cluster_of(int count) const {
    Cluster cluster;
    cluster.kinds.push_back({&recorded_, casts_of(recorded_), count, 1});
    cluster.placement = topo::placement_of(topo::Dims{{count}});
    return cluster;
  }
  static PrecisionPlan mixed_plan() {
    PrecisionPlan plan;
    plan.layers["conv2"] = Precision::kBf16;
    return plan;
  }
  Recorded recorded_ = record();
};

// Graphs are built in two places; both must describe the same step.
TEST_F(Timelines, TakeWhatWasPredicted) {
  for (const int workers : {1, 2, 8})
    for (const double slowdown : {1.0, 1.7})
      for (const double speed : {1.0, 0.5}) {
        Cluster cluster = cluster_of(workers);
        cluster.kinds[0].slowdown = slowdown;
        cluster.kinds[0].change.compute = speed;
        cluster.exchange.is_inline = slowdown > 1;
        if (workers == 8) cluster.kinds.push_back(cluster.kinds[0]);
        const std::vector<PrecisionPlan> plans(cluster.kinds.size(),
                                               mixed_plan());
        const ClusterStep step = predict_step(cluster, plans);
        const ClusterTimeline timeline = predict_timeline(cluster, plans);
        std::int64_t sum = 0;
        for (const PathPiece& one : timeline.path) sum += one.span.ns();
        EXPECT_EQ(sum, step.ns);
        for (std::size_t kind = 0; kind < plans.size(); ++kind)
          EXPECT_EQ(timeline.times[kind].step.ns(), step.kind_ns[kind]);
      }
}

// A trace of one rank of several, replayed alone.
TEST(ClusterStep, TracedCollectivesTakeWhatTheyTook) {
  StepGraph graph;
  graph.threads.resize(1);
  graph.streams = 1;
  graph.stream_names = {"0/7"};
  graph.has_device = true;
  ThreadMark launch, wait;
  launch.kind = ThreadMark::Kind::kLaunch;
  launch.kernel = 0;
  wait.kind = ThreadMark::Kind::kWaitAll;
  graph.threads[0] = {launch, wait};
  KernelTask task;
  task.ns = 7000;
  task.collective = 0;
  graph.kernels = {task};
  graph.collectives.push_back({"allreduce"});
  Cluster cluster;
  cluster.kinds.push_back({});
  const auto together = replay_until_steady(cluster, {graph});
  EXPECT_EQ(together.step_ns[0], 7000);
}

// Only conv2 in bf16: a cast before it, and one for its gradient.
TEST_F(Timelines, KnowCasts) {
  const ClusterTimeline timeline =
      predict_timeline(cluster_of(1), {mixed_plan()});
  const MarkFlags is_cast = find_casts(timeline.steps[0]);
  std::map<std::int32_t, int> kernels;  // casts, by side
  for (std::size_t thread = 0; thread < is_cast.size(); ++thread)
    for (std::size_t i = 0; i < is_cast[thread].size(); ++i) {
      const ThreadMark& mark = timeline.steps[0].threads[thread][i];
      if (is_cast[thread][i] && mark.kernel != kNone) ++kernels[mark.part];
    }
  EXPECT_EQ(kernels[2 * 2], 1);
  EXPECT_EQ(kernels[2 * 2 + 1], 1);
  EXPECT_EQ(kernels[2 * 0], 0);
  const MarkFlags none =
      find_casts(mix_step(recorded_, uniform(Precision::kF32), {}));
  for (const auto& thread : none)
    for (const bool flag : thread) EXPECT_FALSE(flag);
}

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

TEST_F(SharedHost, MoreWorkersThanCoresShareCores) {
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
