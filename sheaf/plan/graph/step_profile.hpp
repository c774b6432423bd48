#pragma once
// One recorded step, cut into parts: what each slot of the model does forward
// and backward, its casts apart, and the memory that it takes and gives back.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/graph/step_graph.hpp"
#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

struct Part {
  std::int32_t slot = kNone;
  bool is_backward = false;
  std::int32_t cast = kNone;   // of this input of the slot; else its own work
  std::int32_t gradients = 0;  // of parameters that are complete with it
};

// A slot's work forward, or backward: 2 * slot, and 2 * slot + 1.
inline std::size_t side_of(const Part& part) {
  return 2 * static_cast<std::size_t>(part.slot) + (part.is_backward ? 1 : 0);
}

// A stretch of a thread's marks, all of one part.
struct Stretch {
  std::int32_t part = kNone;
  std::uint32_t thread = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

inline constexpr std::int32_t kBeforeAll = -2;
inline constexpr std::int32_t kAfterAll = -3;

struct Allocation {
  std::int64_t bytes = 0;
  std::int32_t born = kBeforeAll;  // in this part
  std::int32_t died = kAfterAll;
};

struct MemoryEvent {
  std::size_t allocation = 0;
  bool is_end = false;
};

struct StepProfile {
  std::string file;
  std::string device_name;
  std::string scaled_from;   // the device of the trace, if it is another one
  bool is_stand_in = false;  // it was recorded in another precision
  TracedModel model;
  ModelGraph graph;
  StepGraph step;
  std::vector<Part> parts;         // in the order in which they began
  std::vector<Stretch> stretches;  // of all threads, by thread
  std::vector<Allocation> memory;
  std::vector<MemoryEvent> memory_events;  // in the order of time
  std::vector<double> step_ns;             // of all steps of the trace
  std::vector<std::string> notes;
};

// The step of the trace whose time is the median, with what each thing took in
// the median of the steps that are like it. IoError as read_steps(), and
// for a trace that does not tell its model; UsageError where events and model
// do not belong together.
StepProfile read_profile(const std::filesystem::path& path,
                         const CustomOperators& custom = {});
// Workers that exchange wait for the slowest of them in each step: how many
// times as long as a worker's usual step that one's is, in the median. Of steps
// that hiccup independently of each other, as the recorded ones did; wild ones
// are left out.
double wait_for_slowest(const StepProfile& profile, int workers);

StepProfile make_profile(const Trace& trace, std::size_t step,
                         const std::string& file,
                         const CustomOperators& custom = {});

}  // namespace sheaf::plan
