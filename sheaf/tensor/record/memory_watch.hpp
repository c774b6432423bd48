#pragma once
// What tensors take, now and at most.

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sheaf::tensor {

// Sees what this thread allocates and frees while it lives, and autograd's
// threads on its behalf; a Recorder notes it, too. Of the CPU's memory only
// what was allocated under a watch counts; of a GPU's all. One at a time on a
// thread, and none beside libtorch's own profiler.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // While it lives, nothing is seen. For what other threads have allocated:
  // libtorch warns of memory that a watch has not seen come.
  class [[nodiscard]] Pause {
   public:
    explicit Pause(MemoryWatch& watch) : watch_(watch) { watch.set_on(false); }
    ~Pause() { watch_.set_on(true); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    MemoryWatch& watch_;
  };

  // Bytes that are allocated; 0 before the first allocation or release.
  std::int64_t allocated(c10::DeviceType device) const;
  // The most of it since the last call.
  std::int64_t take_peak(c10::DeviceType device);

 private:
  void set_on(bool is_on);

  struct State;
  std::unique_ptr<State> state_;
};

// The most that each phase of a step has taken: scopes "sheaf::phase NAME" that
// this thread opens while it lives. One at a time on a thread.
class PhasePeaks {
 public:
  // The watch must outlive it.
  PhasePeaks(MemoryWatch& watch, c10::DeviceType device);
  ~PhasePeaks();
  PhasePeaks(const PhasePeaks&) = delete;
  PhasePeaks& operator=(const PhasePeaks&) = delete;

  std::int64_t before() const { return before_; }  // at its construction
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
