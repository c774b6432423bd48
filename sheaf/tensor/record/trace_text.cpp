#include "sheaf/tensor/record/trace_text.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/table.hpp"

namespace sheaf::tensor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
constexpr std::size_t kPieceBytes = 1 << 20;

std::string in_quotes(const std::string& text) { return Cell(text).as_json(); }

// Appends a shape such as "[64, 3]" and returns the position after it.
const std::int64_t* add_shape(fmt::memory_buffer& out, const std::int64_t* at) {
  const std::int64_t axes = *at++;
  out.push_back('[');
  for (std::int64_t i = 0; i < axes; ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i ? ", " : "", *at++);
  if (axes < -1)
    for (std::int64_t i = 0; i < -2 - axes; ++i) {
      if (i) out.append(std::string_view(", "));
      at = add_shape(out, at);
    }
  out.push_back(']');
  return at;
}

void add_shapes(fmt::memory_buffer& out, const std::int64_t* at) {
  out.append(std::string_view("\"Input Dims\": ["));
  const std::int64_t count = *at++;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i) out.append(std::string_view(", "));
    at = add_shape(out, at);
  }
  out.push_back(']');
}

}  // namespace

struct TextFile::File {
  fs::path path;
  fs::path unfinished;
  gzFile stream = nullptr;

  [[noreturn]] void fail(const char* what) {
    throw IoError(concat(path.string(), ": ", what,
                         "; check that the folder exists and the disk has free "
                         "space"));
  }
};

TextFile::TextFile(fs::path path) : file_(std::make_unique<File>()) {
  file_->path = std::move(path);
  file_->unfinished = concat(file_->path.string(), ".unfinished");
  // Mode T writes the file uncompressed.
  const bool is_packed = file_->path.extension() == ".gz";
  file_->stream =
      ::gzopen(file_->unfinished.c_str(), is_packed ? "wb4" : "wbT");
  if (!file_->stream) file_->fail("cannot be written");
}

TextFile::~TextFile() {
  if (!file_->stream) return;
  ::gzclose(file_->stream);
  std::error_code none;
  fs::remove(file_->unfinished, none);
}

void TextFile::write(std::string_view text) {
  if (text.empty()) return;
  const auto bytes = static_cast<unsigned>(text.size());
  if (::gzwrite(file_->stream, text.data(), bytes) != static_cast<int>(bytes))
    file_->fail("write failed");
}

void TextFile::finish() {
  if (::gzclose(std::exchange(file_->stream, nullptr)) != Z_OK)
    file_->fail("cannot be closed");
  std::error_code error;
  fs::rename(file_->unfinished, file_->path, error);
  if (error) file_->fail("the finished file cannot be renamed");
}

namespace {

class EventWriter {
 public:
  EventWriter(TextFile& file, const EventLines& lines)
      : file_(file), lines_(lines), process_(::getpid()) {}

  void add(const RecordedThread& thread) {
    names_.clear();
    for (const std::string& name : thread.names)
      names_.push_back(in_quotes(name));
    for (std::size_t i = 0; i < thread.events.size(); ++i) add(thread, i);
    if (lines_.has_operators)
      for (const RecordedAllocation& one : thread.allocations) add(thread, one);
    flush();
  }

  std::size_t count() const { return count_; }

 private:
  template <class... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format,
                   std::forward<Values>(values)...);
  }
  // Microseconds with three decimals.
  void put_time(std::int64_t ns) { put("{}.{:03d}", ns / 1000, ns % 1000); }
  void begin_line() {
    if (out_.size() > kPieceBytes) flush();
    out_.append(std::string_view(lines_.is_first ? "\n" : ",\n"));
    lines_.is_first = false;
    ++count_;
  }
  void flush() {
    file_.write({out_.data(), out_.size()});
    out_.clear();
  }

  void add(const RecordedThread& thread, std::size_t i) {
    const RecordedEvent& event = thread.events[i];
    const bool is_collective = event.kind == EventKind::kCollective;
    if (event.end_ns < 0 || (!lines_.has_operators && !is_collective)) return;
    begin_line();
    const char* category = is_collective                     ? "collective"
                           : event.kind == EventKind::kScope ? "user_annotation"
                                                             : "cpu_op";
    put(R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, )"
        R"("ts": )",
        category, names_[event.name], process_, thread.system_id);
    put_time(event.begin_ns + lines_.shift_ns);
    put(R"(, "dur": )");
    put_time(event.end_ns - event.begin_ns);
    put(R"(, "args": {{)");
    if (is_collective)
      add_collective(thread, event);
    else if (event.kind != EventKind::kScope)
      add_operator(thread, i);
    put("}}}}");
  }

  void add_collective(const RecordedThread& thread,
                      const RecordedEvent& event) {
    const auto& call =
        thread.collectives[static_cast<std::size_t>(event.detail)];
    put(R"("Collective name": {}, "In msg nelems": {}, "dtype": "{}", )"
        R"("Group size": {}, "Bytes": {})",
        names_[event.name], call.elements, name_of(call.dtype), call.ranks,
        call.bytes);
  }

  // The event with the sequence number of event i. An event of the autograd
  // engine has the number of the node that it calls; hooks may precede that
  // node.
  static const RecordedEvent& numbered(const RecordedThread& thread,
                                       std::size_t i) {
    const RecordedEvent& event = thread.events[i];
    const std::string_view name = thread.names[event.name];
    if (event.sequence >= 0 || !name.starts_with(kEngine)) return event;
    for (++i; i < thread.events.size(); ++i) {
      const RecordedEvent& inner = thread.events[i];
      if (inner.begin_ns >= event.end_ns) break;
      if (inner.kind == EventKind::kBackward &&
          thread.names[inner.name] == name.substr(kEngine.size()))
        return inner;
    }
    return event;
  }

  void add_operator(const RecordedThread& thread, std::size_t i) {
    const RecordedEvent& event = thread.events[i];
    const RecordedEvent& node = numbered(thread, i);
    const char* comma = "";
    if (node.sequence >= 0) {
      put(R"("Sequence number": {}, "Fwd thread id": {})", node.sequence,
          node.forward_thread);
      comma = ", ";
    }
    if (event.detail < 0) return;
    put("{}", comma);
    add_shapes(out_, thread.sizes.data() + event.detail);
  }

  void add(const RecordedThread& thread, const RecordedAllocation& one) {
    begin_line();
    put(R"({{"ph": "i", "cat": "cpu_instant_event", "s": "t", )"
        R"("name": "[memory]", "pid": {}, "tid": {}, "ts": )",
        process_, thread.system_id);
    put_time(one.at_ns + lines_.shift_ns);
    put(R"(, "args": {{"Device Type": {}, "Device Id": {}, "Addr": {}, )"
        R"("Bytes": {}, "Total Allocated": {}}}}})",
        one.device_type, one.device, one.address, one.bytes, one.total);
  }

  TextFile& file_;
  EventLines lines_;
  std::size_t count_ = 0;
  const int process_;
  std::vector<std::string> names_;  // as JSON
  fmt::memory_buffer out_;
};

// The zero of the steady clock in nanoseconds since 1970.
std::int64_t steady_base_ns() {
  const auto system = std::chrono::system_clock::now().time_since_epoch();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(system - steady).count();
}

}  // namespace

std::size_t write_events(TextFile& file, const Recorder& recorder,
                         const EventLines& lines) {
  EventWriter writer(file, lines);
  for (const RecordedThread* thread : recorder.threads()) writer.add(*thread);
  return writer.count();
}

void write_trace(const fs::path& path, const Recorder& recorder,
                 const TraceHead& head, std::string_view sheaf) {
  TextFile file(path);
  file.write(fmt::format(R"({{"schemaVersion": 1, "displayTimeUnit": "ms", )"
                         R"("baseTimeNanoseconds": {},
"deviceProperties": [{{"id": 0, "name": {}}}],
"distributedInfo": {{"backend": "sheaf", "rank": {}, "world_size": {}}},
"traceEvents": [
{{"ph": "M", "name": "process_name", "pid": {}, "args": {{"name": "rank {}"}}}})",
                         steady_base_ns(), in_quotes(head.device_name),
                         head.rank, head.ranks, ::getpid(), head.rank));
  write_events(file, recorder, {.is_first = false});
  file.write("\n]");
  if (!sheaf.empty()) file.write(concat(",\n\"sheaf\": ", sheaf));
  file.write("}\n");
  file.finish();
}

}  // namespace sheaf::tensor
