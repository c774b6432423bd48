#include "sheaf/plan/trace/step_trace.hpp"

#include <algorithm>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/plan/trace/trace_numbers.hpp"

namespace sheaf::plan {
namespace {

constexpr std::string_view kStepName = "ProfilerStep";
constexpr std::string_view kMemoryName = "[memory]";

// Beyond these a file is no trace of training steps, and what the planner does
// for each step, or each pair of threads, would take hours.
constexpr std::size_t kMostSteps = 10'000;
constexpr std::size_t kMostThreads = 1024;  // and streams

enum class Kind { kOperator, kCall, kKernel, kScope, kCollective, kOther };

// Accepts old and new category names.
Kind kind_of(std::string_view category) {
  if (category == "cpu_op" || category == "Operator") return Kind::kOperator;
  if (category == "cuda_runtime" || category == "Runtime" ||
      category == "cuda_driver")
    return Kind::kCall;
  if (category == "kernel" || category == "Kernel" ||
      category == "gpu_memcpy" || category == "Memcpy" ||
      category == "gpu_memset" || category == "Memset")
    return Kind::kKernel;
  if (category == "user_annotation") return Kind::kScope;
  if (category == "collective") return Kind::kCollective;
  return Kind::kOther;
}

struct FoundStep {
  Span span;
  std::string label;
  std::string thread;
};

std::string thread_of(const RawEvent& event) {
  return concat(event.process, "/", event.thread);
}

Span span_of(const RawEvent& event) {
  return {event.start_ns, event.start_ns + event.duration_ns};
}

// Throws IoError for sums that would overflow in predictions.
class SumCheck {
 public:
  explicit SumCheck(const std::filesystem::path& path) : path_(path) {}

  void add(const RawEvent& event) {
    add(event.duration_ns, ns_, "last more than 36 years together");
    add(std::abs(event.bytes), bytes_,
        "allocate and copy more than 2^60 bytes");
    add(std::abs(event.elements), elements_, "send more than 2^60 elements");
  }

 private:
  void add(std::int64_t value, std::int64_t& sum, const char* what) const {
    sum += value;  // both are far below the limit of the type
    if (sum > kLongestSumNs)
      throw IoError(concat(path_.string(), ": its events ", what,
                           "; record the trace again"));
  }

  const std::filesystem::path& path_;
  std::int64_t ns_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t elements_ = 0;
};

void check_steps(const std::filesystem::path& path,
                 const std::vector<FoundStep>& steps) {
  if (steps.empty())
    throw IoError(concat(path.string(),
                         " has no torch operators and no CUDA runtime calls, "
                         "so it has no steps"));
  if (steps.size() > kMostSteps)
    throw IoError(concat(path.string(), " has ", steps.size(),
                         " steps; record at most ", kMostSteps));
  for (const FoundStep& step : steps)
    if (step.span.ns() > kLongestNs)
      throw IoError(concat(path.string(), ": ", printable(step.label, 40),
                           " lasts longer than three days; the times of its "
                           "events are wrong, record the trace again"));
}

// Step spans appear on the thread and, in some traces, also on streams.
std::vector<FoundStep> find_steps(const std::filesystem::path& path) {
  std::vector<FoundStep> steps;
  FoundStep all;
  all.label = "all";
  all.span = {kLatestNs, 0};
  SumCheck sums(path);
  scan_trace(path, [&](const RawEvent& event) {
    sums.add(event);
    if (event.phase != 'X') return;
    const Kind kind = kind_of(event.category);
    if (kind == Kind::kOperator || kind == Kind::kCall) {
      if (event.start_ns < all.span.begin_ns) all.thread = thread_of(event);
      all.span.begin_ns = std::min(all.span.begin_ns, event.start_ns);
      all.span.end_ns = std::max(all.span.end_ns, span_of(event).end_ns);
    }
    if (event.name.substr(0, kStepName.size()) == kStepName &&
        event.category.substr(0, 3) != "gpu")
      steps.push_back(
          {span_of(event), std::string(event.name), thread_of(event)});
  });
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.span.begin_ns < b.span.begin_ns;
  });
  if (steps.empty() && all.span.end_ns > 0) steps.push_back(all);
  check_steps(path, steps);
  return steps;
}

// Indexes of the names of a step's threads or streams.
class Places {
 public:
  Places(std::vector<std::string>& list, const std::filesystem::path& path)
      : list_(&list), path_(&path) {
    for (std::size_t i = 0; i < list.size(); ++i)
      places_.emplace(list[i], static_cast<std::uint32_t>(i));
  }

  std::uint32_t of(const std::string& name) {
    const auto [at, is_new] =
        places_.try_emplace(name, static_cast<std::uint32_t>(list_->size()));
    if (!is_new) return at->second;
    if (list_->size() == kMostThreads)
      throw IoError(concat(path_->string(), ": a step has more than ",
                           kMostThreads,
                           " threads or streams; record one rank"));
    list_->push_back(name);
    return at->second;
  }

 private:
  std::vector<std::string>* list_;
  const std::filesystem::path* path_;
  std::unordered_map<std::string, std::uint32_t> places_;
};

class Loader {
 public:
  Loader(Trace& trace, const std::vector<FoundStep>& steps,
         const std::filesystem::path& path)
      : trace_(trace) {
    trace_.names.number_of("");
    trace_.steps.reserve(steps.size());
    for (const FoundStep& one : steps) {
      StepTrace& step = trace_.steps.emplace_back();
      step.label = one.label;
      step.span = one.span;
      step.threads.push_back(one.thread);
      threads_.emplace_back(step.threads, path);
      streams_.emplace_back(step.streams, path);
    }
  }

  void add(const RawEvent& event) {
    if (event.phase == 'i' && event.name == kMemoryName) add_memory(event);
    if (event.phase != 'X') return;
    switch (kind_of(event.category)) {
      case Kind::kOperator:
        if (StepTrace* step = step_at(event.start_ns))
          add_operator(*step, event);
        break;
      case Kind::kCall:
        if (StepTrace* step = step_at(event.start_ns)) add_call(*step, event);
        break;
      case Kind::kKernel:
        waiting_.push_back(
            {kernel_of(event), concat(event.device, "/", event.stream)});
        break;
      case Kind::kScope:
        if (StepTrace* step = step_at(event.start_ns))
          step->scopes.push_back({span_of(event),
                                  trace_.names.number_of(event.name),
                                  thread_in(*step, event)});
        break;
      case Kind::kCollective:
        if (StepTrace* step = step_at(event.start_ns))
          add_collective(*step, event);
        break;
      case Kind::kOther:
        break;
    }
  }

  // Assigns kernels to the steps that launched them.
  void finish() {
    std::unordered_map<std::int64_t, StepTrace*> launcher;
    for (StepTrace& step : trace_.steps)
      for (const TracedCall& call : step.calls)
        if (call.correlation >= 0) launcher[call.correlation] = &step;
    for (auto& [kernel, stream] : waiting_) {
      const auto found = launcher.find(kernel.correlation);
      if (found == launcher.end()) continue;
      kernel.stream = stream_in(*found->second, stream);
      found->second->kernels.push_back(kernel);
    }
    const auto by_begin = [](const auto& a, const auto& b) {
      if (a.span.begin_ns != b.span.begin_ns)
        return a.span.begin_ns < b.span.begin_ns;
      return a.span.end_ns > b.span.end_ns;
    };
    count_queued();
    for (StepTrace& step : trace_.steps) {
      std::stable_sort(step.operators.begin(), step.operators.end(), by_begin);
      std::stable_sort(step.calls.begin(), step.calls.end(), by_begin);
      std::stable_sort(step.kernels.begin(), step.kernels.end(), by_begin);
      std::stable_sort(step.scopes.begin(), step.scopes.end(), by_begin);
      std::stable_sort(
          step.memory.begin(), step.memory.end(),
          [](const auto& a, const auto& b) { return a.ns < b.ns; });
    }
  }

 private:
  std::size_t number_of(const StepTrace& step) const {
    return static_cast<std::size_t>(&step - trace_.steps.data());
  }
  std::uint32_t thread_in(const StepTrace& step, const RawEvent& event) {
    return threads_[number_of(step)].of(thread_of(event));
  }
  std::uint32_t stream_in(const StepTrace& step, const std::string& name) {
    return streams_[number_of(step)].of(name);
  }
  StepTrace* step_at(std::int64_t ns) {
    auto after = std::upper_bound(trace_.steps.begin(), trace_.steps.end(), ns,
                                  [](std::int64_t at, const StepTrace& s) {
                                    return at < s.span.begin_ns;
                                  });
    if (after == trace_.steps.begin()) return nullptr;
    StepTrace& step = *std::prev(after);
    return ns < step.span.end_ns ? &step : nullptr;
  }
  void add_operator(StepTrace& step, const RawEvent& event) {
    TracedOperator one;
    one.span = span_of(event);
    one.name = trace_.names.number_of(event.name);
    one.thread = thread_in(step, event);
    one.sequence = event.sequence;
    step.operators.push_back(one);
  }
  void add_memory(const RawEvent& event) {
    StepTrace* step = step_at(event.start_ns);
    if (step == nullptr) return;
    step->memory.push_back({event.start_ns, event.bytes, event.address,
                            thread_in(*step, event), event.device_type > 0});
  }
  void add_call(StepTrace& step, const RawEvent& event) {
    step.calls.push_back({span_of(event), trace_.names.number_of(event.name),
                          thread_in(step, event), event.correlation, 0});
  }
  // A collective executed by a thread: the thread launches it and waits.
  void add_collective(StepTrace& step, const RawEvent& event) {
    const std::int64_t number = -2 - collectives_++;
    add_call(step, event);
    step.calls.back().correlation = number;
    TracedKernel kernel = kernel_of(event);
    kernel.correlation = number;
    kernel.is_on_host = true;
    kernel.stream = stream_in(step, "collectives");
    step.kernels.push_back(kernel);
  }
  // Number of kernels launched minus number of kernels ended before the call.
  void count_queued() {
    std::unordered_map<std::int64_t, std::int64_t> end_of;
    for (const Waiting& one : waiting_)
      end_of[one.kernel.correlation] = one.kernel.span.end_ns;
    std::vector<std::int64_t> begins, ends;
    for (const StepTrace& step : trace_.steps)
      for (const TracedCall& call : step.calls)
        if (const auto found = end_of.find(call.correlation);
            found != end_of.end()) {
          begins.push_back(call.span.begin_ns);
          ends.push_back(found->second);
        }
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
    const auto before = [](const auto& sorted, std::int64_t ns) {
      return std::lower_bound(sorted.begin(), sorted.end(), ns) -
             sorted.begin();
    };
    for (StepTrace& step : trace_.steps)
      for (TracedCall& call : step.calls)
        call.queued =
            static_cast<std::int32_t>(before(begins, call.span.begin_ns) -
                                      before(ends, call.span.begin_ns));
  }
  TracedKernel kernel_of(const RawEvent& event) {
    TracedKernel kernel;
    kernel.span = span_of(event);
    kernel.name = trace_.names.number_of(event.name);
    kernel.correlation = event.correlation;
    kernel.bytes = event.bytes;
    kernel.elements = event.elements;
    kernel.collective = trace_.names.number_of(event.collective);
    return kernel;
  }

  struct Waiting {
    TracedKernel kernel;
    std::string stream;
  };
  Trace& trace_;
  std::vector<Places> threads_;  // by step
  std::vector<Places> streams_;  // by step
  std::vector<Waiting> waiting_;
  std::int64_t collectives_ = 0;
};

}  // namespace

std::uint32_t Names::number_of(std::string_view text) {
  const auto [at, is_new] = numbers_.try_emplace(
      std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(&at->first);
  return at->second;
}

Trace read_steps(const std::filesystem::path& path) {
  const auto steps = find_steps(path);
  Trace trace;
  Loader loader(trace, steps, path);
  trace.header =
      scan_trace(path, [&](const RawEvent& event) { loader.add(event); });
  loader.finish();
  return trace;
}

}  // namespace sheaf::plan
