#include "sheaf/comm/report/iteration_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/table.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::comm {
namespace {

double mean_us(std::int64_t ns, std::uint64_t calls) {
  return static_cast<double>(ns) / 1e3 / static_cast<double>(calls);
}

double bytes_per_call(const ReportLine& line) {
  return static_cast<double>(line.bytes) / static_cast<double>(line.calls);
}

// Total time in the calls, by rank.
std::vector<std::int64_t> elapsed_by_rank(const Report& report) {
  std::vector<std::int64_t> elapsed;
  for (const ReportLine& line : report.lines) {
    elapsed.resize(line.ranks.size());
    for (std::size_t rank = 0; rank < elapsed.size(); ++rank)
      elapsed[rank] += line.ranks[rank].elapsed_ns;
  }
  return elapsed;
}

std::uint64_t calls_of(const Report& report) {
  std::uint64_t calls = 0;
  for (const ReportLine& line : report.lines) calls += line.calls;
  return calls;
}

Cell fraction(double bound_us, double time_us) {
  if (time_us <= 0) return {};
  return 100 * bound_us / time_us;
}

void add_rows(Table& table, const Report& report, const ReportLine& line) {
  const double bytes = bytes_per_call(line);
  const double total = total_us(line);
  const double bound = report.bound_us_per_byte * bytes;
  table.add_row({line.algorithm, "all", line.ranks.size(), line.calls,
                 format_bytes(static_cast<std::uint64_t>(bytes)), total, bound,
                 fraction(bound, total)});
  for (const ChosenTier& tier : line.tiers) {
    const double time = tier_us(line, tier);
    const double tier_bound = tier.bound_us_per_byte * bytes;
    table.add_row({"  " + tier.algorithm,
                   tier.name,
                   tier.size,
                   {},
                   {},
                   time,
                   tier_bound,
                   fraction(tier_bound, time)});
  }
}

nlohmann::json json_of(const ReportLine& line, double bound_us_per_byte) {
  const double bytes = bytes_per_call(line);
  const auto timed = [&](double time_us, double us_per_byte) {
    return nlohmann::json{
        {"time_us", time_us},
        {"bound_us", us_per_byte * bytes},
        {"fraction", time_us > 0 ? us_per_byte * bytes / time_us : 0}};
  };
  nlohmann::json json = timed(total_us(line), bound_us_per_byte);
  json["algorithm"] = line.algorithm;
  json["calls"] = line.calls;
  json["bytes"] = line.bytes;
  json["tiers"] = nlohmann::json::array();
  for (const ChosenTier& tier : line.tiers) {
    auto one = timed(tier_us(line, tier), tier.bound_us_per_byte);
    one["tier"] = tier.name;
    one["size"] = tier.size;
    one["algorithm"] = tier.algorithm;
    json["tiers"].push_back(one);
  }
  return json;
}

}  // namespace

int Report::slowest_rank() const {
  const auto elapsed = elapsed_by_rank(*this);
  return static_cast<int>(std::min_element(elapsed.begin(), elapsed.end()) -
                          elapsed.begin());
}

double Report::late_us() const {
  const auto elapsed = elapsed_by_rank(*this);
  const auto [least, most] =
      std::minmax_element(elapsed.begin(), elapsed.end());
  return mean_us(*most - *least, calls_of(*this));
}

double total_us(const ReportLine& line) {
  const auto last = std::min_element(
      line.ranks.begin(), line.ranks.end(),
      [](const auto& a, const auto& b) { return a.elapsed_ns < b.elapsed_ns; });
  return mean_us(last->elapsed_ns, line.calls);
}

double tier_us(const ReportLine& line, const ChosenTier& tier) {
  std::int64_t longest = 0;
  for (const LineTimes& rank : line.ranks)
    longest =
        std::max(longest, tier.outer == kHostTier ? rank.local_ns
                                                  : rank.tier_ns[tier.outer]);
  return mean_us(longest, line.calls);
}

std::string table_of(const Report& report) {
  Table table({{.name = "algorithm", .align = Align::kLeft},
               {.name = "tier", .align = Align::kLeft},
               {.name = "size"},
               {.name = "calls"},
               {.name = "bytes"},
               {.name = "time", .unit = "us", .decimals = 1},
               {.name = "bound", .unit = "us", .decimals = 1},
               {.name = "of bound", .unit = "%", .decimals = 1}});
  for (const ReportLine& line : report.lines) add_rows(table, report, line);
  std::ostringstream out;
  out << "sheaf: all-reduces " << report.first_call << " to "
      << report.last_call << " of group " << report.group << ", "
      << report.lines.front().ranks.size() << " ranks on " << report.hosts
      << " hosts; bounds of machine '" << report.machine << "'\n";
  table.print(out, TableFormat::kText);
  out << "slowest: rank " << report.slowest_rank() << ", "
      << Cell(report.late_us()).as_text(1)
      << " us after the first on average\n";
  return out.str();
}

std::string json_of(const Report& report) {
  nlohmann::json json{{"schema", "sheaf.report.1"},
                      {"group", report.group},
                      {"hosts", report.hosts},
                      {"first_call", report.first_call},
                      {"last_call", report.last_call},
                      {"machine", report.machine},
                      {"slowest_rank", report.slowest_rank()},
                      {"late_us", report.late_us()},
                      {"algorithms", nlohmann::json::array()},
                      {"ranks", nlohmann::json::array()}};
  for (const ReportLine& line : report.lines)
    json["algorithms"].push_back(json_of(line, report.bound_us_per_byte));
  const auto elapsed = elapsed_by_rank(report);
  for (std::size_t rank = 0; rank < elapsed.size(); ++rank) {
    std::int64_t waited = 0;
    for (const ReportLine& line : report.lines)
      waited += line.ranks[rank].waited_ns;
    json["ranks"].push_back(
        {{"time_us", mean_us(elapsed[rank], calls_of(report))},
         {"waited_us", mean_us(waited, calls_of(report))}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sheaf::comm
