#pragma once
// Writes recorded events as a trace file. docs/reference/trace.md documents the
// format.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sheaf/tensor/record/recorder.hpp"

namespace sheaf::tensor {

// A text file, compressed if the name ends in ".gz", that appears under its
// name only when complete. Errors are IoErrors that name the file.
class TextFile {
 public:
  explicit TextFile(std::filesystem::path path);
  ~TextFile();  // deletes the file unless finish() was called
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

struct TraceHead {
  int rank = 0;
  int ranks = 1;
  std::string device_name = {};
};

// Format of the event lines. Each line but the first begins with a comma.
struct EventLines {
  bool has_operators = true;  // false: collectives only
  std::int64_t shift_ns = 0;  // added to all times
  bool is_first = true;       // no event precedes these lines
};
// Returns the number of lines written.
std::size_t write_events(TextFile& file, const Recorder& recorder,
                         const EventLines& lines);

// Writes a complete trace. `sheaf` is the JSON value of the key "sheaf"; empty:
// the key is omitted.
void write_trace(const std::filesystem::path& path, const Recorder& recorder,
                 const TraceHead& head, std::string_view sheaf);

}  // namespace sheaf::tensor
