#pragma once
// What a trace tells of one training step: operators of threads, calls that
// launch or wait, and the kernels of streams.

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/plan/trace/trace_file.hpp"

namespace sheaf::plan {

// Texts by number, each once.
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

// Of torch: "aten::addmm", "autograd::engine::evaluate_function: …".
struct TracedOperator {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;  // in StepTrace::threads
  std::int64_t sequence = -1;
};

// Of the CUDA runtime, by a thread.
struct TracedCall {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
  std::int64_t correlation = -1;
  std::int32_t queued = 0;  // kernels under way at its begin, of any step
};

// On a stream: a kernel, a copy, a fill.
struct TracedKernel {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t stream = 0;  // in StepTrace::streams
  std::int64_t correlation = -1;
  std::int64_t bytes = -1;     // of a copy
  std::int64_t elements = -1;  // of a collective
  std::uint32_t collective = 0;
  bool is_on_host = false;  // a collective that a thread has done itself
};

// What a program has named: "sheaf::layer conv1 bf16".
struct TracedScope {
  Span span;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;
};

// Memory that was taken, or given back (negative bytes).
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
  std::vector<std::string> threads;  // "pid/tid"; the step's own is the first
  std::vector<std::string> streams;  // "device/stream"
  // Each by begin; of operators with the same begin the longer one first.
  std::vector<TracedOperator> operators;
  std::vector<TracedCall> calls;
  std::vector<TracedKernel> kernels;
  std::vector<TracedScope> scopes;
  std::vector<TracedMemory> memory;
};

struct Trace {
  TraceHeader header;
  Names names;
  std::vector<StepTrace> steps;  // in the order of time
};

// All steps that a trace has: the spans of "ProfilerStep#…", or everything as
// one step where there are none. Reads the file twice; memory is that of the
// steps' operators, calls and kernels. IoError as scan_trace().
Trace read_steps(const std::filesystem::path& path);

}  // namespace sheaf::plan
