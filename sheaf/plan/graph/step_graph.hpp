#pragma once
// The dependency graph of a step: work for threads and streams, with what each
// waits for. It keeps the durations and dependencies of a trace but not its
// absolute times.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/trace/step_trace.hpp"

namespace sheaf::plan {

inline constexpr std::int32_t kNone = -1;

// A point in the course of a thread: some computation, then one action.
struct ThreadMark {
  enum class Kind : std::uint8_t {
    kPoint,    // no action; others may wait for it
    kLaunch,   // launches a kernel
    kWaitAll,  // waits for everything launched on all streams
  };
  Kind kind = Kind::kPoint;
  std::int64_t cpu_ns = 0;   // since the previous mark
  std::int64_t call_ns = 0;  // of the call itself, without waiting
  std::int32_t kernel = kNone;
  // It continues `delay_ns` after another thread has reached this mark.
  std::int32_t other_thread = kNone;
  std::int32_t other_mark = kNone;
  std::int64_t delay_ns = 0;
  std::int32_t part = kNone;  // part that it belongs to
  bool is_cast = false;       // only in composed steps
};

struct KernelTask {
  std::int64_t ns = 0;
  std::int64_t gap_ns = 0;  // after the previous kernel, if it waited for that
  std::int64_t latency_ns = 0;  // from the start of its launch
  std::uint32_t stream = 0;
  // Kernels of other streams that must have ended before.
  std::vector<std::int32_t> after{};
  std::int32_t collective = kNone;  // number of the collective, if it is one
  bool is_product = false;  // matrix product or convolution, by its name
};

// An operation of all ranks.
struct Collective {
  std::string name;            // "allreduce"
  std::int64_t elements = -1;  // -1: not recorded
  Span span{};                 // measured, including waiting for others
};

struct StepGraph {
  // The step's own thread is first.
  std::vector<std::vector<ThreadMark>> threads;
  std::vector<KernelTask> kernels;  // in launch order
  std::size_t streams = 0;
  std::vector<std::string> stream_names;  // of the streams in the trace
  bool has_device = false;                // false: threads do the computation
  std::vector<Collective> collectives;
  std::int64_t measured_ns = 0;
  // Time of the loader threads for a batch; 0: less than the step and not
  // recorded.
  std::int64_t loader_ns = 0;
  // Events that could not be matched, with the reason.
  std::vector<std::string> notes;
};

// Device time caused by a mark, without collectives; thread time without a
// device.
std::int64_t work_ns(const StepGraph& step, const ThreadMark& mark);

// From this time on the thread works on this part of the step.
struct Cut {
  std::uint32_t thread = 0;
  std::int64_t ns = 0;
  std::int32_t part = kNone;
};

// Builds the graph. `cuts`, sorted by thread and time, divide threads into
// parts; each part ends with a mark.
StepGraph make_graph(const StepTrace& step, const Names& names,
                     const std::vector<Cut>& cuts = {});

}  // namespace sheaf::plan
