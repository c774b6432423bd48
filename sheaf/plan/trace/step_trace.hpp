#pragma once
// The events of a training step in a trace: operators of threads, calls that
// launch or wait, and kernels of streams.

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/plan/trace/trace_file.hpp"

namespace sheaf::plan {

// Interned strings: each distinct text has a number.
class Names {
 public:
  std::uint32_t number_of(std::string_view text);
  const std::string& operator[](std::uint32_t number) const {
    return *texts_[number];
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> texts_;
};

struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t ns() const { return end_ns - begin_ns; }
};

// A torch operator: "aten::addmm", "autograd::engine::evaluate_function: …".
struct TracedOperator {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;  // index in StepTrace::threads
  std::int64_t sequence = -1;
};

// A call of the CUDA runtime by a thread.
struct TracedCall {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
  std::int64_t correlation = -1;
  std::int32_t queued = 0;  // kernels in flight at its start, of any step
};

// A kernel, copy or fill on a stream.
struct TracedKernel {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t stream = 0;  // index in StepTrace::streams
  std::int64_t correlation = -1;
  std::int64_t bytes = -1;     // for a copy
  std::int64_t elements = -1;  // for a collective
  std::uint32_t collective = 0;
  bool is_on_host = false;  // collective executed by a thread
};

// A named range: "sheaf::layer conv1 bf16".
struct TracedScope {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
};

// Memory allocated, or freed (negative bytes).
struct TracedMemory {
  std::int64_t ns = 0;
  std::int64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t thread = 0;
  bool is_device = false;
};

struct StepTrace {
  std::string label;  // "ProfilerStep#4"
  Span span;
  std::vector<std::string> threads;  // "pid/tid"; the step's own is first
  std::vector<std::string> streams;  // "device/stream"
  // Each sorted by start; of operators with the same start, the longer one
  // first.
  std::vector<TracedOperator> operators;
  std::vector<TracedCall> calls;
  std::vector<TracedKernel> kernels;
  std::vector<TracedScope> scopes;
  std::vector<TracedMemory> memory;
};

struct Trace {
  TraceHeader header;
  Names names;
  std::vector<StepTrace> steps;  // in order of time
};

// Reads all steps of a trace: the spans of "ProfilerStep#…", or everything as
// one step if there are none. Reads the file twice; uses memory for the steps'
// operators, calls and kernels. Throws IoError like scan_trace(), and if there
// is no step.
Trace read_steps(const std::filesystem::path& path);

}  // namespace sheaf::plan
