#include "sheaf/tensor/record/memory_watch.hpp"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/record/recorder.hpp"

namespace sheaf::tensor {
namespace {

using Base = c10::MemoryReportingInfoBase;

// The type of the totals differs between versions of libtorch.
template <class Function>
struct TotalsOf;
template <class Total>
struct TotalsOf<void (Base::*)(void*, std::int64_t, Total, Total,
                               c10::Device)> {
  using Type = Total;
};
using Total = TotalsOf<decltype(&Base::reportMemoryUsage)>::Type;

}  // namespace

class MemoryReporter final : public Base {
 public:
  void reportMemoryUsage(void* address, std::int64_t bytes, Total allocated,
                         Total /*reserved*/, c10::Device device) override {
    const auto total = static_cast<std::int64_t>(allocated);
    const auto type = static_cast<std::size_t>(device.type());
    if (type < totals_.size()) {
      totals_[type].store(total);
      if (total > peaks_[type].load()) peaks_[type].store(total);
    }
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    Recorder::note({.at_ns = std::chrono::nanoseconds(now).count(),
                    .address = reinterpret_cast<std::uint64_t>(address),
                    .bytes = bytes,
                    .total = total,
                    .device_type = static_cast<int>(device.type()),
                    .device = device.has_index() ? device.index() : -1});
  }
  bool memoryProfilingEnabled() const override { return is_on_; }
  void set_on(bool is_on) { is_on_ = is_on; }

  std::int64_t total(std::size_t type) const { return totals_.at(type).load(); }
  std::int64_t take_peak(std::size_t type) {
    return peaks_.at(type).exchange(totals_.at(type).load());
  }

 private:
  std::atomic<bool> is_on_{true};
  // Indexed by device type: CPU is 0, CUDA is 1. The threads of a step do not
  // allocate concurrently.
  std::array<std::atomic<std::int64_t>, 2> totals_{};
  std::array<std::atomic<std::int64_t>, 2> peaks_{};
};

struct MemoryWatch::State {
  std::shared_ptr<MemoryReporter> reporter = std::make_shared<MemoryReporter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reporter};
};

MemoryWatch::MemoryWatch() : state_(std::make_unique<State>()) {}
MemoryWatch::~MemoryWatch() = default;

std::int64_t MemoryWatch::allocated(c10::DeviceType device) const {
  return state_->reporter->total(static_cast<std::size_t>(device));
}

std::int64_t MemoryWatch::take_peak(c10::DeviceType device) {
  return state_->reporter->take_peak(static_cast<std::size_t>(device));
}

void MemoryWatch::set_on(bool is_on) { state_->reporter->set_on(is_on); }

struct PhasePeaks::Callbacks {
  static thread_local PhasePeaks* current;

  static std::string phase_of(const at::RecordFunction& call) {
    constexpr std::string_view kPhase = "sheaf::phase ";
    const std::string_view name = call.name();
    return std::string(name.starts_with(kPhase) ? name.substr(kPhase.size())
                                                : std::string_view());
  }
  static std::unique_ptr<at::ObserverContext> begin(
      const at::RecordFunction& call) {
    if (current && !phase_of(call).empty())
      current->watch_.take_peak(current->device_);
    return nullptr;
  }
  static void end(const at::RecordFunction& call, at::ObserverContext*) {
    const std::string phase = phase_of(call);
    if (!current || phase.empty()) return;
    std::int64_t& peak = current->peaks_[phase];
    peak = std::max(peak, current->watch_.take_peak(current->device_));
  }
};

thread_local PhasePeaks* PhasePeaks::Callbacks::current = nullptr;

PhasePeaks::PhasePeaks(MemoryWatch& watch, c10::DeviceType device)
    : watch_(watch), device_(device) {
  SHEAF_CHECK(!Callbacks::current,
              "this thread already has an active PhasePeaks");
  // libtorch reports the total with the next allocation or release.
  at::empty({1}, at::TensorOptions().device(device)).reset();
  before_ = watch.allocated(device);
  Callbacks::current = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(Callbacks::begin, Callbacks::end)
          .scopes({at::RecordScope::USER_SCOPE}));
}

PhasePeaks::~PhasePeaks() {
  at::removeCallback(handle_);
  Callbacks::current = nullptr;
}

}  // namespace sheaf::tensor
