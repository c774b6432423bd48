// Traces, plain and compressed: the events, the model description, and what
// `sheaf plan` derives from both.
// parser: sheaf/plan/trace/trace_file.cpp sheaf/plan/trace/trace_numbers.cpp
// parser: sheaf/plan/trace/value_stream.cpp sheaf/plan/trace/step_trace.cpp
// parser: sheaf/plan/trace/traced_model.cpp sheaf/plan/trace/model_graph.cpp
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/graph/critical_path.hpp"
#include "sheaf/plan/graph/measured_step.hpp"
#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/step_replay.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {
namespace {

// The reader needs a path: that of an anonymous file, written for each input.
std::filesystem::path path_of(fuzz::Input input) {
  static const int file = ::memfd_create("trace", 0);
  (void)!::ftruncate(file, 0);
  (void)!::pwrite(file, input.data(), input.size(), 0);
  return "/proc/self/fd/" + std::to_string(file);
}

void use(const plan::StepProfile& profile, const plan::ReplayTimes& times) {
  plan::critical_path({&profile.step}, {times});
  plan::json_of(profile.graph);
  plan::dot_of(profile.graph);
  plan::wait_for_slowest(profile, 4);
}

}  // namespace

SHEAF_FUZZ_TARGET(trace) {
  const std::filesystem::path path = path_of(input);
  try {
    if (input.size() % 2 == 0) {
      const plan::MeasuredStep measured = plan::read_measured(path);
      return use(measured.profile, measured.times);
    }
    const plan::StepProfile profile = plan::read_profile(path);
    plan::Replay replay;
    plan::ReplayTimes times;
    for (int step = 0; step < 2; ++step) replay.run(profile.step, &times);
    use(profile, times);
  } catch (const Error&) {
  }
}

}  // namespace sheaf
