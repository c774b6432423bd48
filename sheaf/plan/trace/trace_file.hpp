#pragma once
// Traces in Chrome's format, as torch.profiler (Kineto, old and new) and Sheaf
// write them, read event by event: memory does not grow with the file.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace sheaf::plan {

// Texts are valid during the call that it is given to. -1: not there.
struct RawEvent {
  char phase = 0;  // 'X' has a duration, 'i' is a moment
  std::string_view category{};
  std::string_view name{};
  std::string_view process{};
  std::string_view thread{};
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  // Arguments.
  std::int64_t correlation = -1;  // of a launch and its kernel
  std::int64_t sequence = -1;
  std::int64_t device = -1;
  std::int64_t stream = -1;
  std::int64_t bytes = -1;
  std::int64_t elements = -1;  // of a collective's message
  std::string_view collective{};
  std::uint64_t address = 0;      // of memory
  std::int64_t device_type = -1;  // of memory; 0 is the host's
};

struct TraceHeader {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
  std::string device_name;
  std::string model;  // JSON, what `sheaf trace` tells of the model
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;  // of the text
};

using RawVisitor = std::function<void(const RawEvent&)>;

// Calls `visit` for each event in the order of the file. IoError, with the
// place in the file, for one that is damaged, ends early or is no trace.
TraceHeader scan_trace(const std::filesystem::path& path,
                       const RawVisitor& visit);

}  // namespace sheaf::plan
