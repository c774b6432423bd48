// Each thread writes to a separate log. The start and the end of an operator
// take no lock: the thread sets a flag, checks that its log belongs to the
// current recording, and writes. stop() first ends the recording, then waits
// until all flags are cleared; after that it owns the logs.
#include "sheaf/tensor/record/recorder.hpp"

#include <ATen/record_function.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/perform.hpp"

namespace sheaf::tensor {
namespace {

// Enough for a step of most networks without reallocation.
constexpr std::size_t kFirstEvents = 1 << 14;

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Log : RecordedThread {
  std::atomic<bool> is_written{false};
  std::vector<std::uint32_t> open;  // events that have not ended
  // Names by address, which is the same for all calls of an operator. Addresses
  // are reused, so the text must still be compared.
  std::unordered_map<const void*, std::uint32_t> by_place;
  std::unordered_map<std::string, std::uint32_t> by_text;

  std::uint32_t number_of(const char* name) {
    auto [at, is_new] = by_place.try_emplace(name, 0);
    if (!is_new && names[at->second] == name) return at->second;
    const auto [found, is_first] =
        by_text.try_emplace(name, static_cast<std::uint32_t>(names.size()));
    if (is_first) names.emplace_back(name);
    at->second = found->second;
    return found->second;
  }

  RecordedEvent& begin(EventKind kind, const char* name) {
    open.push_back(static_cast<std::uint32_t>(events.size()));
    RecordedEvent& event = events.emplace_back();
    event.kind = kind;
    event.name = number_of(name);
    return event;
  }
  void end(std::int64_t now) {
    if (open.empty()) return;  // it began before the recording
    events[open.back()].end_ns = now;
    open.pop_back();
  }
};

// Id of the active recording; 0: none.
std::atomic<std::uint64_t> current_recording{0};
std::mutex recordings_mutex;
std::uint64_t recordings = 0;
std::vector<std::shared_ptr<Log>> current_logs;

struct Mine {
  std::uint64_t recording = 0;
  std::shared_ptr<Log> log;
};
thread_local Mine mine;

bool join_recording(std::uint64_t recording) {
  const std::lock_guard lock(recordings_mutex);
  if (current_recording.load() != recording) return false;
  mine.log = std::make_shared<Log>();
  mine.log->system_id = ::syscall(SYS_gettid);
  mine.log->events.reserve(kFirstEvents);
  mine.recording = recording;
  current_logs.push_back(mine.log);
  return true;
}

// Write access to the thread's log for its lifetime; null if no recording is
// active.
class Writing {
 public:
  Writing() {
    const std::uint64_t recording = current_recording.load();
    if (recording == 0) return;
    if (mine.recording != recording && !join_recording(recording)) return;
    mine.log->is_written.store(true);
    if (current_recording.load() == recording)
      log_ = mine.log.get();
    else
      mine.log->is_written.store(false, std::memory_order_release);
  }
  ~Writing() {
    if (log_) log_->is_written.store(false, std::memory_order_release);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  Log* operator->() { return log_; }
  explicit operator bool() const { return log_ != nullptr; }

 private:
  Log* log_ = nullptr;
};

void add_tensor(std::vector<std::int64_t>& sizes, const at::Tensor& tensor) {
  if (!tensor.defined()) return sizes.push_back(-1);
  const auto shape = tensor.sizes();
  sizes.push_back(static_cast<std::int64_t>(shape.size()));
  sizes.insert(sizes.end(), shape.begin(), shape.end());
}

std::int32_t add_sizes(std::vector<std::int64_t>& sizes,
                       c10::ArrayRef<const c10::IValue> inputs) {
  const auto place = static_cast<std::int32_t>(sizes.size());
  sizes.push_back(static_cast<std::int64_t>(inputs.size()));
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      add_tensor(sizes, input.toTensor());
    } else if (input.isTensorList()) {
      const auto list = input.toTensorList();
      sizes.push_back(-2 - static_cast<std::int64_t>(list.size()));
      for (const at::Tensor& one : list) add_tensor(sizes, one);
    } else {
      sizes.push_back(-1);
    }
  }
  return place;
}

EventKind event_kind(at::RecordScope scope) {
  if (scope == at::RecordScope::BACKWARD_FUNCTION) return EventKind::kBackward;
  return scope == at::RecordScope::USER_SCOPE ? EventKind::kScope
                                              : EventKind::kOperator;
}

// The clock is read last at the start and first at the end, so the cost of
// recording is attributed to the enclosing event.
std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& call) {
  Writing log;
  if (!log) return nullptr;
  RecordedEvent& event = log->begin(event_kind(call.scope()), call.name());
  event.sequence = call.seqNr();
  event.forward_thread = call.forwardThreadId();
  if (call.needsInputs() && event.kind != EventKind::kScope)
    event.detail = add_sizes(log->sizes, call.inputs());
  event.begin_ns = steady_ns();
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  const std::int64_t now = steady_ns();
  if (Writing log; log) log->end(now);
}

void on_collective(const comm::Fingerprint& call, int ranks) {
  Writing log;
  if (!log) return;
  RecordedEvent& event =
      log->begin(EventKind::kCollective, comm::name_of(call.operation).data());
  event.detail = static_cast<std::int32_t>(log->collectives.size());
  const auto count = static_cast<std::int64_t>(call.count);
  const auto size = static_cast<std::int64_t>(size_of(call.dtype));
  log->collectives.push_back({count, count * size, call.dtype, ranks});
  event.begin_ns = steady_ns();
}

void on_collective_end() {
  const std::int64_t now = steady_ns();
  if (Writing log; log) log->end(now);
}

constexpr comm::Observer kObserver{on_collective, on_collective_end};

at::RecordFunctionCallback callback_of(const RecorderOptions& options) {
  using at::RecordScope;
  auto callback = at::RecordFunctionCallback(on_begin, on_end);
  if (options.has_operators)
    callback
        .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION,
                 RecordScope::USER_SCOPE})
        .needsInputs(options.has_sizes);
  else
    callback.scopes({RecordScope::USER_SCOPE});
  return callback;
}

}  // namespace

Recorder::Recorder(const RecorderOptions& options) {
  {
    const std::lock_guard lock(recordings_mutex);
    SHEAF_CHECK(current_recording.load() == 0,
                "a recording is already active; stop it first");
    current_logs.clear();
    current_recording.store(++recordings);
  }
  comm::set_observer(&kObserver);
  handle_ = at::addGlobalCallback(callback_of(options));
}

Recorder::~Recorder() { stop(); }

void Recorder::stop() {
  if (!std::exchange(is_on_, false)) return;
  at::removeCallback(handle_);
  comm::set_observer(nullptr);
  const std::lock_guard lock(recordings_mutex);
  current_recording.store(0);
  for (const auto& log : current_logs) {
    while (log->is_written.load()) std::this_thread::yield();
    logs_.push_back(log);
    threads_.push_back(log.get());
  }
  current_logs.clear();
}

void Recorder::note(const RecordedAllocation& allocation) {
  if (Writing log; log) log->allocations.push_back(allocation);
}

}  // namespace sheaf::tensor
