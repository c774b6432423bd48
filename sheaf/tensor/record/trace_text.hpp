#pragma once
// Recorded events as a trace file: docs/trace.md.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sheaf/tensor/record/recorder.hpp"

namespace sheaf::tensor {

// A text file, compressed where the name ends in ".gz", that is there only when
// it is complete. IoError names the file.
class TextFile {
 public:
  explicit TextFile(std::filesystem::path path);
  ~TextFile();  // without finish(): nothing is left of it
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

// The lines of all events, each but the first with a comma in front. `shift_ns`
// is added to their times.
struct EventLines {
  bool has_operators = true;  // else collectives only
  std::int64_t shift_ns = 0;
  bool is_first = true;
};
// Gives their number.
std::size_t write_events(TextFile& file, const Recorder& recorder,
                         const EventLines& lines);

// A whole trace. `sheaf` is what the file says under that name, JSON.
void write_trace(const std::filesystem::path& path, const Recorder& recorder,
                 const TraceHead& head, std::string_view sheaf);

}  // namespace sheaf::tensor
