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
  int signal = 0;            // 0: it exited by itself
  bool was_asked = false;    // it had been told to end, so it is not to blame
  std::int64_t time_ns = 0;  // of its host's clock
  std::string start_error;   // why it could not be started; empty: it was
  bool is_consequence = false;  // it failed because of another rank
  std::string error;            // what it has said of its failure, one line

  bool is_failure() const { return code != 0 && !was_asked; }
  bool operator==(const RankReport&) const = default;
};

std::string encode_report(const RankReport& report);

// Reads what encode_report wrote for `rank`; InternalError on other text.
RankReport parse_report(int rank, std::string_view text);

// "rank 2 (host b, pid 1234) was killed by signal 9 (SIGKILL)".
std::string describe(const RankReport& report);

// Reports in the order in which they came; one per rank counts.
class ReportBook {
 public:
  // False when the rank has reported before.
  bool add(const RankReport& report);

  int count() const { return static_cast<int>(reports_.size()); }
  bool has(int rank) const;
  bool has_failure() const { return first_failure() != nullptr; }

  // The failure that came first, of those that are not another rank's
  // consequence, if there are such; among those of its host, which share a
  // clock, the one with the earliest time. Null when nothing failed.
  const RankReport* first_failure() const;

  // The first that ended with a code other than 0 after it was told to end.
  const RankReport* first_asked() const;

 private:
  std::vector<RankReport> reports_;
};

}  // namespace sheaf::cli
