#pragma once
// How one rank's program ended, and which rank of a run failed first.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::cli {

struct RankReport {
  int rank = 0;
  std::string host;
  int pid = 0;
  int code = 0;              // exit code; 128 + n when killed by signal n
  int signal = 0;            // 0: the program exited by itself
  bool was_asked = false;    // stopped on request, so not a failure
  std::int64_t time_ns = 0;  // end of the program, by its host's clock
  std::string start_error;   // why it could not be started; empty: it started
  bool is_consequence = false;  // it failed because another rank did
  std::string error;            // its error message, one line

  bool is_failure() const { return code != 0 && !was_asked; }
  bool operator==(const RankReport&) const = default;
};

std::string encode_report(const RankReport& report);

// Parses the result of encode_report for `rank`; throws InternalError if the
// text is malformed.
RankReport parse_report(int rank, std::string_view text);

// "rank 2 (host b, pid 1234) was killed by signal 9 (SIGKILL)".
std::string describe(const RankReport& report);

// Collects reports in the order of arrival; only the first of each rank counts.
class ReportBook {
 public:
  // Returns false if the rank has already reported.
  bool add(const RankReport& report);

  int count() const { return static_cast<int>(reports_.size()); }
  bool has(int rank) const;
  bool has_failure() const { return first_failure() != nullptr; }

  // The first failure to arrive, or an earlier one (by time) of the same host,
  // whose ranks share a clock. Failures caused by another rank are considered
  // only if there are no others. Null if nothing failed.
  const RankReport* first_failure() const;

  // The first report with a nonzero code of a rank that was asked to stop; null
  // if there is none.
  const RankReport* first_asked() const;

 private:
  std::vector<RankReport> reports_;
};

}  // namespace sheaf::cli
