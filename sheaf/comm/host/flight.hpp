#pragma once
// Flight recorder: the last operations of a rank, in memory that its peers can
// read. Shows where each rank is when a rank hangs or has died.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

struct FlightRecord {
  Fingerprint call;
  std::int32_t group = 0;
  bool has_ended = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// "in all_reduce #12 (...) for 2.1 s" or "after barrier #3 (ended 2.1 s ago)".
std::string describe(const FlightRecord& record, std::int64_t now_ns);

// A ring buffer of records. Lives in shared memory; zeroed memory is a valid
// empty ring. Only threads of the owner write; any peer may read.
class FlightRing {
 public:
  static constexpr std::uint64_t kCapacity = 128;

  // Records the start of a call. Pass the result to end().
  std::uint64_t begin(const Fingerprint& call, std::int32_t group) noexcept;
  void end(std::uint64_t ticket) noexcept;

  std::optional<FlightRecord> latest() const;
  std::uint64_t count() const noexcept;   // calls of begin() and mirror()
  std::vector<FlightRecord> all() const;  // oldest first
  // Copies a record that another host sent about one of its ranks.
  void mirror(const FlightRecord& record) noexcept;

 private:
  // Words: fingerprint (3), group, start, end. `version` is odd while they are
  // written. Until the call has ended, its end is a value that only its ticket
  // has, so that end() cannot change the entry of a later call.
  struct VersionedRecord {
    std::atomic<std::uint64_t> version{0};
    std::array<std::atomic<std::uint64_t>, 6> words{};
  };
  // The claimed entry, or null if a thread that is a whole ring behind or ahead
  // is using it.
  VersionedRecord* claim(std::uint64_t ticket) noexcept;
  void write(std::uint64_t ticket, const FlightRecord& record) noexcept;
  std::optional<FlightRecord> read(std::uint64_t index) const;

  std::atomic<std::uint64_t> count_{0};
  std::array<VersionedRecord, kCapacity> records_{};
};

}  // namespace sheaf::comm
