#pragma once
// libtorch's own profiler, Kineto, which sees the kernels of GPUs. Not all
// libtorchs have it.

#include <filesystem>

namespace sheaf::tensor {

// Empty where it is there; else why not.
const char* why_no_kineto();

// Records what this thread does, autograd's threads on its behalf, and the GPU.
// Nothing else may profile meanwhile, a MemoryWatch of this thread included.
class KinetoRecorder {
 public:
  // Gets ready, which takes seconds; a step or two should follow before start.
  // UsageError where it is not there.
  KinetoRecorder();
  ~KinetoRecorder();
  KinetoRecorder(const KinetoRecorder&) = delete;
  KinetoRecorder& operator=(const KinetoRecorder&) = delete;

  void start();
  // Waits for the GPU, and writes the trace; IoError names the file.
  void stop(const std::filesystem::path& file);

 private:
  bool is_on_ = false;
};

}  // namespace sheaf::tensor
