// What `sheaf predict` computes from a trace: the step of two workers, with the
// exchange of gradients, also at another batch size and on another device.
// parser: sheaf/plan/graph/step_profile.cpp sheaf/plan/graph/step_graph.cpp
// parser: sheaf/plan/graph/operator_map.cpp sheaf/plan/graph/lifetimes.cpp
// parser: sheaf/plan/predict/mixed_step.cpp sheaf/plan/predict/mixed_memory.cpp
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/batch_scaling.hpp"
#include "sheaf/plan/predict/cluster.hpp"
#include "sheaf/plan/predict/device_profile.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {
namespace {

constexpr plan::Precision kAll[] = {
    plan::Precision::kF32, plan::Precision::kTf32, plan::Precision::kBf16,
    plan::Precision::kF16, plan::Precision::kInt8};

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

// The reader needs a path: that of an anonymous file, written for each input.
std::filesystem::path path_of(fuzz::Input input) {
  static const int file = ::memfd_create("trace", 0);
  (void)!::ftruncate(file, 0);
  (void)!::pwrite(file, input.data(), input.size(), 0);
  return "/proc/self/fd/" + std::to_string(file);
}

plan::DeviceProfile device(const char* name, double factor) {
  plan::DeviceProfile profile;
  profile.name = name;
  for (const plan::Precision one : kAll) profile.tflops[one] = 10 * factor;
  profile.memory_gbs = 300 * factor;
  return profile;
}

void predict(plan::StepProfile profile) {
  const plan::Recorded recorded({std::move(profile)});
  plan::Cluster cluster;
  plan::WorkerKind kind;
  kind.recorded = &recorded;
  kind.casts = plan::casts_of(recorded, {});
  kind.count = 2;
  cluster.kinds.push_back(kind);
  cluster.placement = topo::placement_of(topo::Dims{{2}});
  plan::PrecisionPlan plan;
  plan.other = recorded.model().precision;
  plan::predict_step(cluster, {plan});
  plan::predict_timeline(cluster, {plan});
}

}  // namespace

SHEAF_FUZZ_TARGET(predict) {
  attempt([&] {
    const plan::StepProfile profile = plan::read_profile(path_of(input));
    attempt([&] { predict(profile); });
    attempt([&] {
      for (auto& one : plan::all_at_batch({profile}, 24)) predict(one);
    });
    attempt([&] {
      for (auto& one :
           plan::traces_on({profile}, device("a", 1), device("b", 2)))
        predict(one);
    });
  });
}

}  // namespace sheaf
