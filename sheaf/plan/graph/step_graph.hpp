#pragma once
// A step as work for threads and streams, with what each waits for: what is
// left of a trace when moments are forgotten and causes are kept.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/trace/step_trace.hpp"

namespace sheaf::plan {

inline constexpr std::int32_t kNone = -1;

// A moment in the life of a thread: some computing, then one thing is done.
struct ThreadMark {
  enum class Kind : std::uint8_t {
    kPoint,    // nothing; others may wait for it
    kLaunch,   // starts a kernel
    kWaitAll,  // waits until all streams have done what was launched
  };
  Kind kind = Kind::kPoint;
  std::int64_t cpu_ns = 0;   // since the mark before it
  std::int64_t call_ns = 0;  // of the call itself, waiting left out
  std::int32_t kernel = kNone;
  // It goes on when another thread has come to this mark, so much later.
  std::int32_t other_thread = kNone;
  std::int32_t other_mark = kNone;
  std::int64_t delay_ns = 0;
  std::int32_t part = kNone;  // that it belongs to
  bool is_cast = false;       // in a step that was put together
};

struct KernelTask {
  std::int64_t ns = 0;
  std::int64_t gap_ns = 0;      // after the one before it, if that is awaited
  std::int64_t latency_ns = 0;  // from the begin of its launch
  std::uint32_t stream = 0;
  // Kernels of other streams that must have ended.
  std::vector<std::int32_t> after{};
  std::int32_t collective = kNone;  // of all ranks together: its number
  bool is_product = false;  // of matrices, or a convolution, by its name
};

// What all ranks do together.
struct Collective {
  std::string name;            // "allreduce"
  std::int64_t elements = -1;  // -1: the trace does not tell
  Span span{};                 // measured, waiting for others included
};

struct StepGraph {
  std::vector<std::vector<ThreadMark>> threads;  // the step's own is the first
  std::vector<KernelTask> kernels;               // in the order of launches
  std::size_t streams = 0;
  std::vector<std::string> stream_names;  // of those that a trace has
  bool has_device = false;                // else threads compute
  std::vector<Collective> collectives;
  std::int64_t measured_ns = 0;
  // What the loader's threads take for a batch; 0: less than the step, and the
  // trace does not tell.
  std::int64_t loader_ns = 0;
  // What could not be matched, and why.
  std::vector<std::string> notes;
};

// What a mark has the device do, collectives left out; of the thread itself
// where there is no device.
std::int64_t work_ns(const StepGraph& step, const ThreadMark& mark);

// From this moment on the thread works on that part of the step.
struct Cut {
  std::uint32_t thread = 0;
  std::int64_t ns = 0;
  std::int32_t part = kNone;
};

// Each part that the cuts (by time) make ends with a mark.
StepGraph make_graph(const StepTrace& step, const Names& names,
                     const std::vector<Cut>& cuts = {});

}  // namespace sheaf::plan
