#pragma once
// libtorch's profiler, Kineto, which records GPU kernels. Some libtorch builds
// lack it.

#include <filesystem>

namespace sheaf::tensor {

// The reason why Kineto is unavailable; empty if it is available.
const char* why_no_kineto();

// Records this thread, autograd's threads on its behalf, and the GPU. No other
// profiler may be active, including a MemoryWatch of this thread.
class KinetoRecorder {
 public:
  // Prepares Kineto, which takes seconds; run a step or two before start().
  // Throws UsageError if Kineto is unavailable.
  KinetoRecorder();
  ~KinetoRecorder();
  KinetoRecorder(const KinetoRecorder&) = delete;
  KinetoRecorder& operator=(const KinetoRecorder&) = delete;

  void start();
  // Waits for the GPU and writes the trace. Throws IoError, which names the
  // file, if that fails.
  void stop(const std::filesystem::path& file);

 private:
  bool is_on_ = false;
};

}  // namespace sheaf::tensor
