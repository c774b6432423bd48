#include "sheaf/cli/launch/rank_report.hpp"

#include <fmt/format.h>
#include <string.h>  // sigabbrev_np, which <cstring> need not have

#include <algorithm>
#include <sstream>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

std::string ending(const RankReport& report) {
  if (!report.start_error.empty()) return report.start_error;
  if (report.signal == 0)
    return fmt::format("exited with code {}", report.code);
  const char* name = sigabbrev_np(report.signal);
  return fmt::format("was killed by signal {} ({})", report.signal,
                     name ? fmt::format("SIG{}", name) : "real-time");
}

// Whether `one` failed before `other`, although its report arrived later.
bool is_before(const RankReport& one, const RankReport& other) {
  if (one.is_consequence != other.is_consequence) return other.is_consequence;
  return one.host == other.host && one.time_ns < other.time_ns;
}

}  // namespace

std::string encode_report(const RankReport& report) {
  return fmt::format("{} {} {} {} {} {} {} {}\n{}", report.host, report.pid,
                     report.code, report.signal, report.was_asked ? 1 : 0,
                     report.time_ns, report.is_consequence ? 1 : 0,
                     report.start_error, report.error);
}

RankReport parse_report(int rank, std::string_view text) {
  RankReport report;
  report.rank = rank;
  std::istringstream in{std::string(text)};
  in >> report.host >> report.pid >> report.code >> report.signal >>
      report.was_asked >> report.time_ns >> report.is_consequence;
  SHEAF_ASSERT(in, "report of rank ", rank, ": '", text, "'");
  in.get();
  std::getline(in, report.start_error);
  std::getline(in, report.error);
  return report;
}

std::string describe(const RankReport& report) {
  return fmt::format("rank {} (host {}, pid {}) {}", report.rank, report.host,
                     report.pid, ending(report));
}

bool ReportBook::add(const RankReport& report) {
  if (has(report.rank)) return false;
  reports_.push_back(report);
  return true;
}

bool ReportBook::has(int rank) const {
  return std::any_of(reports_.begin(), reports_.end(),
                     [rank](const auto& one) { return one.rank == rank; });
}

const RankReport* ReportBook::first_failure() const {
  const RankReport* first = nullptr;
  for (const RankReport& one : reports_) {
    if (!one.is_failure()) continue;
    if (!first || is_before(one, *first)) first = &one;
  }
  return first;
}

const RankReport* ReportBook::first_asked() const {
  for (const RankReport& one : reports_)
    if (one.was_asked && one.code != 0) return &one;
  return nullptr;
}

}  // namespace sheaf::cli
