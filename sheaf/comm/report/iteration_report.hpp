#pragma once
// The report of -dump_iter: the combined numbers of all ranks, as a table for
// people and as a line of JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/choice/select.hpp"

namespace sheaf::comm {

// Sums over the calls with one algorithm, on one rank. Trivially copyable,
// since ranks exchange it as bytes.
struct LineTimes {
  std::int64_t elapsed_ns = 0;
  std::int64_t waited_ns = 0;
  std::int64_t local_ns = 0;
  std::int64_t tier_ns[topo::kMaxDims] = {};
};

struct ReportLine {
  std::string algorithm;  // text_of(Choice)
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // sum over all calls
  std::vector<ChosenTier> tiers;
  std::vector<LineTimes> ranks;  // by rank
};

struct Report {
  int group = 0;
  int hosts = 1;
  std::uint64_t first_call = 0;
  std::uint64_t last_call = 0;
  std::string machine;
  double bound_us_per_byte = 0;
  std::vector<ReportLine> lines;

  // The rank that arrived last on average. All ranks leave a call at about the
  // same time, so this is the rank that spent the least time in the calls.
  int slowest_rank() const;
  // Mean delay of the slowest rank after the first rank.
  double late_us() const;
};

// Mean times of one call, in microseconds. total_us() is the time of the rank
// that arrived last and did not wait; tier_us() is the maximum over the ranks.
double total_us(const ReportLine& line);
double tier_us(const ReportLine& line, const ChosenTier& tier);

std::string table_of(const Report& report);
std::string json_of(const Report& report);  // one line, without a newline

}  // namespace sheaf::comm
