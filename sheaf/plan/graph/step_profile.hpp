#pragma once
// One recorded step divided into parts: the forward and backward work of each
// slot of the model, its casts separately, and the memory allocated and freed.

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
  // Input of the slot that is cast; kNone: its own work.
  std::int32_t cast = kNone;
  std::int32_t gradients = 0;  // number of parameter gradients it completes
};

// Index of a slot's forward (2 * slot) or backward (2 * slot + 1) work.
inline std::size_t side_of(const Part& part) {
  return 2 * static_cast<std::size_t>(part.slot) + (part.is_backward ? 1 : 0);
}

// A run of consecutive marks of a thread that belong to one part.
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
  std::int32_t born = kBeforeAll;  // part that allocates it
  std::int32_t died = kAfterAll;
};

struct MemoryEvent {
  std::size_t allocation = 0;
  bool is_end = false;
};

struct StepProfile {
  std::string file;
  std::string device_name;
  std::string scaled_from;   // device of the trace, if converted
  bool is_stand_in = false;  // recorded in another precision
  TracedModel model;
  ModelGraph graph;
  StepGraph step;
  std::vector<Part> parts;         // in order of their start
  std::vector<Stretch> stretches;  // sorted by thread
  std::vector<Allocation> memory;
  std::vector<MemoryEvent> memory_events;  // in order of time
  std::vector<double> step_ns;             // of all steps in the trace
  std::vector<std::string> notes;
};

// Reads the step with the median time, with the median duration of each piece
// of work over the steps that match it. Throws IoError like read_steps() and
// for a damaged model description, UsageError if events and model do not match.
StepProfile read_profile(const std::filesystem::path& path,
                         const CustomOperators& custom = {});
// Workers that exchange data wait for the slowest of them in each step. Returns
// the median ratio of the slowest worker's step to a worker's usual step,
// assuming independent variation as in the recorded steps; outliers are
// excluded.
double wait_for_slowest(const StepProfile& profile, int workers);

// The profile of one step of the trace, without smoothing.
StepProfile make_profile(const Trace& trace, std::size_t step,
                         const std::string& file,
                         const CustomOperators& custom = {});

// Steps that wait for data. Loader threads prepare batches while others
// compute, so a step takes as long as the slower of the two. If a trace shows a
// step waiting for its batch, the loader is slower, and its time per batch is
// the time of the step.

// Idle time of the step's own thread in its first phase "data".
std::int64_t data_wait_ns(const StepTrace& step, const Names& names);

// If the trace's steps wait for data, removes the waiting from the profile and
// sets the loader's time per batch (StepGraph::loader_ns). Does nothing if the
// step's own thread prepares the batches.
void take_out_data_wait(StepProfile& profile, const Trace& trace);

}  // namespace sheaf::plan
