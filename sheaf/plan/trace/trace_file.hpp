#pragma once
// Reads traces in Chrome's format, as written by torch.profiler (old and new
// versions of Kineto) and Sheaf, event by event: memory use does not grow with
// the file.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace sheaf::plan {

// Views are valid only during the visitor's call. -1: absent.
struct RawEvent {
  char phase = 0;  // 'X' has a duration, 'i' is an instant
  std::string_view category{};
  std::string_view name{};
  std::string_view process{};
  std::string_view thread{};
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  // Arguments.
  std::int64_t correlation = -1;  // connects a launch and its kernel
  std::int64_t sequence = -1;
  std::int64_t device = -1;
  std::int64_t stream = -1;
  std::int64_t bytes = -1;
  std::int64_t elements = -1;  // of a collective's message
  std::string_view collective{};
  std::uint64_t address = 0;      // of memory
  std::int64_t device_type = -1;  // of memory; 0 is the host
};

struct TraceHeader {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
  std::string device_name;
  std::string model;  // JSON model description by `sheaf trace`
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;  // of the uncompressed text
};

using RawVisitor = std::function<void(const RawEvent&)>;

// Calls `visit` for each event in file order. Throws an IoError with the
// position in the file if it is damaged, truncated or not a trace.
TraceHeader scan_trace(const std::filesystem::path& path,
                       const RawVisitor& visit);

}  // namespace sheaf::plan
