#pragma once
// Kineto, libtorch's profiler, which records GPU kernels: recording, and the
// traces that it writes. Some libtorch builds lack it.

#include <filesystem>
#include <string>
#include <string_view>

#include "sheaf/tensor/record/recorder.hpp"

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

// Reads a trace written by Kineto and adds Sheaf's collectives and metadata.
class KinetoTrace {
 public:
  // Throws IoError if the file is not a Kineto trace.
  explicit KinetoTrace(const std::filesystem::path& file);

  // The name of the first GPU, or "".
  std::string device_name() const;

  // Writes the trace with the collectives of `recorder`. The clocks differ: a
  // scope "ProfilerStep#…" present in both gives the offset. `sheaf` is the
  // JSON value of the key "sheaf" in the file.
  void write(const std::filesystem::path& path, const Recorder& recorder,
             int rank, int ranks, std::string_view sheaf) const;

 private:
  std::int64_t shift_ns(const Recorder& recorder) const;
  std::int64_t begin_ns(const std::string& scope) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path file_;
  std::string text_;
  std::size_t events_ = 0;  // offset of the first event
  std::size_t end_ = 0;     // offset of the final brace
};

}  // namespace sheaf::tensor
