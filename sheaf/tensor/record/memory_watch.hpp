#pragma once
// Current and peak memory of tensors.

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sheaf::tensor {

// For its lifetime, observes the allocations of this thread and of autograd's
// threads on its behalf, and passes them on to an active Recorder. On the CPU
// only memory allocated under a watch is counted; on a GPU all memory is. At
// most one per thread, and not together with libtorch's profiler.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Suspends the watch for its lifetime. Use it while freeing memory that other
  // threads allocated: libtorch warns about frees without a known allocation.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(MemoryWatch& watch) : watch_(watch) { watch.set_on(false); }
    ~Pause() { watch_.set_on(true); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    MemoryWatch& watch_;
  };

  // Bytes allocated now; 0 before the first allocation or release.
  std::int64_t allocated(c10::DeviceType device) const;
  // The peak since the last call.
  std::int64_t take_peak(c10::DeviceType device);

 private:
  void set_on(bool is_on);

  struct State;
  std::unique_ptr<State> state_;
};

// Peak memory of each phase of a step: the scopes "sheaf::phase NAME" that this
// thread opens during its lifetime. At most one per thread; a second one is a
// UsageError.
class PhasePeaks {
 public:
  // The watch must outlive this object.
  PhasePeaks(MemoryWatch& watch, c10::DeviceType device);
  ~PhasePeaks();
  PhasePeaks(const PhasePeaks&) = delete;
  PhasePeaks& operator=(const PhasePeaks&) = delete;

  std::int64_t before() const { return before_; }  // bytes at construction
  const std::map<std::string, std::int64_t>& peaks() const { return peaks_; }

 private:
  struct Callbacks;

  MemoryWatch& watch_;
  const c10::DeviceType device_;
  std::int64_t before_ = 0;
  std::uint64_t handle_ = 0;
  std::map<std::string, std::int64_t> peaks_;
};

}  // namespace sheaf::tensor
