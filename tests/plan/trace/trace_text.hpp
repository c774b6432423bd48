#pragma once
// Traces for tests, in the format of torch.profiler.

#include <fmt/format.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace sheaf::plan {

class TraceText {
 public:
  // Times in microseconds.
  void add(const char* category, const std::string& name, int thread,
           double begin, double length, const std::string& arguments = "") {
    events_ += fmt::format(
        "{}\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 7, "
        "\"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{{}}}}}",
        events_.empty() ? "" : ",", category, name, thread, kStart + begin,
        length, arguments);
  }
  void moment(const std::string& name, int thread, double at,
              const std::string& arguments) {
    events_ += fmt::format(
        "{}\n{{\"ph\": \"i\", \"s\": \"t\", \"name\": \"{}\", \"pid\": 7, "
        "\"tid\": {}, \"ts\": {:.3f}, \"args\": {{{}}}}}",
        events_.empty() ? "" : ",", name, thread, kStart + at, arguments);
  }
  void step(int number, double begin, double length) {
    add("user_annotation", fmt::format("ProfilerStep#{}", number), 1, begin,
        length);
  }
  void op(const std::string& name, int thread, double begin, double length,
          int sequence = -1) {
    add("cpu_op", name, thread, begin, length,
        sequence < 0 ? "" : fmt::format("\"Sequence number\": {}", sequence));
  }
  // A launch of 5 us and its kernel.
  void kernel(int thread, double launch, int stream, double begin,
              double length, double call = 5) {
    const int number = ++launches_;
    add("cuda_runtime", "cudaLaunchKernel", thread, launch, call,
        fmt::format("\"correlation\": {}", number));
    add("kernel", "k", stream, begin, length,
        fmt::format("\"device\": 0, \"stream\": {}, \"correlation\": {}",
                    stream, number));
  }

  std::string text() const {
    return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, "
           "\"name\": \"GPU\"}], \"distributedInfo\": {\"rank\": 1, "
           "\"world_size\": 2}, \"traceEvents\": [" +
           events_ + "], \"traceName\": \"x\"}\n";
  }
  std::filesystem::path write() const {
    const auto path = folder_.path() / "trace.json";
    std::ofstream(path, std::ios::binary) << text();
    return path;
  }
  std::filesystem::path write_compressed() const {
    const auto path = folder_.path() / "trace.json.gz";
    const std::string all = text();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, all.data(), static_cast<unsigned>(all.size()));
    gzclose(file);
    return path;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  static constexpr double kStart = 1712195495000000;  // since 1970
  TemporaryFolder folder_;
  std::string events_;
  int launches_ = 0;
};

}  // namespace sheaf::plan
