#pragma once
// What -dump_iter says: the numbers of all ranks put together, as a table for
// people and as a line of JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/choice/choice_tiers.hpp"

namespace sheaf::comm {

// Sums over the calls of one kind, on one rank. Plain: ranks tell each other.
struct LineTimes {
  std::int64_t elapsed_ns = 0;
  std::int64_t waited_ns = 0;
  std::int64_t local_ns = 0;
  std::int64_t tier_ns[topo::kMaxDims] = {};
};

struct ReportLine {
  std::string algorithm;  // text_of(Choice)
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // all calls together
  std::vector<ChosenTier> tiers;
  std::vector<LineTimes> ranks;  // of every rank
};

struct Report {
  int group = 0;
  int hosts = 1;
  std::uint64_t first_call = 0;
  std::uint64_t last_call = 0;
  std::string machine;
  double bound_us_per_byte = 0;
  std::vector<ReportLine> lines;

  // All ranks leave a call at about the same time, so who spent the least
  // time in the calls came last.
  int slowest_rank() const;
  // How long after the first it came, on average.
  double late_us() const;
};

// Mean times of one call, in microseconds, and the larger of the ranks' where
// they differ. `total` is the last rank's, who did not wait.
double total_us(const ReportLine& line);
double tier_us(const ReportLine& line, const ChosenTier& tier);

std::string table_of(const Report& report);
std::string json_of(const Report& report);  // one line, without its end

}  // namespace sheaf::comm
