#pragma once
// Reads a trace written by Kineto and adds Sheaf's collectives and metadata.

#include <filesystem>
#include <string>
#include <string_view>

#include "sheaf/tensor/record/recorder.hpp"

namespace sheaf::tensor {

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
