#pragma once
// Traces that Kineto has written, with what Sheaf knows beside it.

#include <filesystem>
#include <string>
#include <string_view>

#include "sheaf/tensor/record/recorder.hpp"

namespace sheaf::tensor {

class KinetoTrace {
 public:
  // IoError for a file that is no trace of Kineto.
  explicit KinetoTrace(const std::filesystem::path& file);

  // The first GPU's, or "".
  std::string device_name() const;

  // Writes it with the collectives of `recorder`, whose clock is another one:
  // a scope "ProfilerStep#…" that both have tells how they differ. `sheaf` is
  // what the file says under that name, JSON.
  void write(const std::filesystem::path& path, const Recorder& recorder,
             int rank, int ranks, std::string_view sheaf) const;

 private:
  std::int64_t shift_ns(const Recorder& recorder) const;
  std::int64_t begin_ns(const std::string& scope) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path file_;
  std::string text_;
  std::size_t events_ = 0;  // after the bracket of the list
  std::size_t end_ = 0;     // the last brace
};

}  // namespace sheaf::tensor
