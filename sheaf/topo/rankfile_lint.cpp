#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/topo/rankfile.hpp"

namespace sheaf::topo {
namespace {

// More problems are not listed: a file of megabytes could have one for each
// pair of its lines.
constexpr std::size_t kMostProblems = 1000;
constexpr std::size_t kMostNames = 20;  // of hosts, in a message

// The hosts of the context by name.
class HostIndex {
 public:
  explicit HostIndex(const std::vector<HostShape>& hosts) : hosts_(hosts) {
    for (const HostShape& host : hosts) by_name_.emplace(host.name, &host);
  }

  // The host of an entry, with +nX resolved; null if it is not listed.
  const HostShape* of(const RankEntry& entry) const {
    if (entry.host.starts_with("+n")) {
      const auto index = parse_count(entry.host.substr(2));
      const bool is_there =
          index && static_cast<std::size_t>(*index) < hosts_.size();
      return is_there ? &hosts_[static_cast<std::size_t>(*index)] : nullptr;
    }
    const auto found = by_name_.find(entry.host);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  const std::vector<HostShape>& hosts_;
  std::unordered_map<std::string_view, const HostShape*> by_name_;
};

// A range of cores, numbered over the whole host if its shape is known,
// otherwise within one socket.
struct Span {
  int socket;
  long first;
  long last;
  std::size_t entry;  // index in the file
};

Span span_of(const HostShape* host, const CoreRange& range, std::size_t entry) {
  const bool has_open_end = range.last == CoreRange::kAllCores;
  if (host == nullptr || range.socket == CoreRange::kWholeHost ||
      range.socket >= static_cast<int>(host->socket_cores.size()))
    return {range.socket, range.first,
            has_open_end ? std::numeric_limits<int>::max() : range.last, entry};
  long before = 0;
  for (int i = 0; i < range.socket; ++i) before += host->socket_cores[i];
  const int last =
      has_open_end ? host->socket_cores[range.socket] - 1 : range.last;
  return {CoreRange::kWholeHost, before + range.first, before + last, entry};
}

bool precedes(const Span& a, const Span& b) {
  return std::tie(a.socket, a.first, a.entry) <
         std::tie(b.socket, b.first, b.entry);
}

// The cores of an entry, as disjoint ranges.
std::vector<Span> spans_of(const HostShape* host, const RankEntry& entry,
                           std::size_t number) {
  std::vector<Span> all;
  for (const CoreRange& range : entry.slots)
    all.push_back(span_of(host, range, number));
  std::sort(all.begin(), all.end(), precedes);
  std::vector<Span> merged;
  for (const Span& span : all)
    if (!merged.empty() && merged.back().socket == span.socket &&
        span.first <= merged.back().last)
      merged.back().last = std::max(merged.back().last, span.last);
    else
      merged.push_back(span);
  return merged;
}

// Two entries, the second of a later line, and the lowest core that they share.
using Overlaps = std::map<std::pair<std::size_t, std::size_t>, long>;

// Passes the ranges of a host in the order of their first cores; those that
// include the first core of the current one overlap it. Ends when there are
// more than kMostProblems.
void find_overlaps(std::vector<Span> spans, Overlaps& overlaps) {
  std::sort(spans.begin(), spans.end(), precedes);
  std::vector<Span> open;
  for (const Span& span : spans) {
    std::erase_if(open, [&](const Span& other) {
      return other.socket != span.socket || other.last < span.first;
    });
    for (const Span& other : open) {
      const auto [first, second] = std::minmax(other.entry, span.entry);
      overlaps.try_emplace({second, first}, span.first);
    }
    if (overlaps.size() > kMostProblems) return;
    open.push_back(span);
  }
}

// All pairs of different ranks that share a core. If the shape of a host is
// unknown, cores of a socket and cores of the host are not compared. Of several
// lines for one rank, only the first counts.
Overlaps find_overlaps(const RankFile& file, const HostIndex& hosts) {
  std::map<std::string_view, std::vector<Span>> by_host;
  std::set<int> seen;
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    const RankEntry& entry = file.entries[i];
    if (!seen.insert(entry.rank).second) continue;
    const HostShape* host = hosts.of(entry);
    const auto spans = spans_of(host, entry, i);
    auto& all = by_host[host ? host->name : entry.host];
    all.insert(all.end(), spans.begin(), spans.end());
  }
  Overlaps overlaps;
  for (auto& [host, spans] : by_host) find_overlaps(std::move(spans), overlaps);
  return overlaps;
}

int total_cores(const HostShape& host) {
  int total = 0;
  for (const int cores : host.socket_cores) total += cores;
  return total;
}

std::string number_of(std::int64_t count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

class Linter {
 public:
  Linter(const RankFile& file, const RankFileContext& context)
      : file_(file), context_(context), hosts_(context.hosts) {}

  std::vector<Diagnostic> run() {
    for (const RankEntry& entry : file_.entries) check_entry(entry);
    check_duplicates();
    check_missing();
    check_overlaps();
    check_product();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Diagnostic& a, const Diagnostic& b) {
                       return a.line < b.line;
                     });
    if (found_.size() == kMostProblems)
      found_.push_back({found_.back().fault, found_.back().line,
                        concat(file_.path, ": more problems than these ",
                               kMostProblems, "; correct them first")});
    return std::move(found_);
  }

 private:
  template <class... Args>
  void report(RankFault fault, int line, const Args&... args) {
    if (found_.size() == kMostProblems) return;
    found_.push_back(
        {fault, line, concat(file_.path, ":", line, ": ", args...)});
  }

  std::string host_names() const {
    std::vector<std::string_view> names;
    for (const HostShape& host : context_.hosts) {
      if (names.size() == kMostNames) {
        names.emplace_back("...");
        break;
      }
      names.push_back(host.name);
    }
    return join(names, ", ");
  }

  void check_entry(const RankEntry& entry) {
    if (context_.ranks && entry.rank >= *context_.ranks)
      report(RankFault::kExtraRank, entry.line, "rank ", entry.rank,
             " is too high: ", number_of(*context_.ranks, "rank"),
             " are started, 0 to ", *context_.ranks - 1,
             "; remove the line or start more (-n)");
    const HostShape* host = hosts_.of(entry);
    if (host != nullptr)
      check_cores(entry, *host);
    else if (!context_.hosts.empty())
      report(RankFault::kUnknownHost, entry.line, "unknown host '", entry.host,
             "'; use one of ", host_names(),
             entry.host.starts_with('+')
                 ? concat(" (+n0 to +n", context_.hosts.size() - 1, ")")
                 : "");
  }

  void check_cores(const RankEntry& entry, const HostShape& host) {
    if (host.socket_cores.empty()) return;
    const int sockets = static_cast<int>(host.socket_cores.size());
    for (const CoreRange& range : entry.slots) {
      if (range.socket >= sockets) {
        report(RankFault::kNoSuchCore, entry.line, "rank ", entry.rank,
               ": host ", host.name, " has no socket ", range.socket,
               "; it has ", number_of(sockets, "socket"), ", 0 to ",
               sockets - 1);
        continue;
      }
      check_core(entry, host, range);
    }
  }

  void check_core(const RankEntry& entry, const HostShape& host,
                  const CoreRange& range) {
    const bool is_whole = range.socket == CoreRange::kWholeHost;
    const int cores =
        is_whole ? total_cores(host) : host.socket_cores[range.socket];
    if (range.last < cores) return;  // also true for kAllCores
    report(RankFault::kNoSuchCore, entry.line, "rank ", entry.rank,
           ": there is no core ", std::max(range.first, cores),
           is_whole ? "" : concat(" in socket ", range.socket), " of host ",
           host.name, "; it has ", number_of(cores, "core"), ", 0 to ",
           cores - 1);
  }

  void check_duplicates() {
    std::map<int, int> first_lines;
    for (const RankEntry& entry : file_.entries) {
      const auto [first, is_new] = first_lines.emplace(entry.rank, entry.line);
      if (!is_new)
        report(RankFault::kDuplicateRank, entry.line, "rank ", entry.rank,
               " is already placed in line ", first->second,
               "; each rank has one line");
    }
  }

  // Expected number of ranks; wider than int, since a file may name any rank.
  std::int64_t expected_ranks(const std::set<std::int64_t>& present) const {
    if (context_.ranks) return *context_.ranks;
    if (context_.dims) return context_.dims->product();
    return present.empty() ? 0 : *present.rbegin() + 1;
  }

  std::set<std::int64_t> present_ranks() const {
    std::set<std::int64_t> ranks;
    for (const RankEntry& entry : file_.entries) ranks.insert(entry.rank);
    return ranks;
  }

  void check_missing() {
    if (file_.entries.empty()) {
      report(RankFault::kMissingRank, std::max(file_.lines, 1),
             "no rank is placed; write 'rank N=host slot=cores' for each");
      return;
    }
    const auto present = present_ranks();
    const std::int64_t expected = expected_ranks(present);
    std::int64_t next = 0;
    for (const std::int64_t rank : present) {
      if (rank >= expected) break;
      report_gap(next, rank, expected);
      next = rank + 1;
    }
    report_gap(next, expected, expected);
  }

  // Reports that ranks [first, end) have no line.
  void report_gap(std::int64_t first, std::int64_t end, std::int64_t expected) {
    if (first >= end) return;
    const int line = std::max(file_.lines, 1);
    const std::string which =
        end - first == 1
            ? concat("rank ", first, " is missing")
            : concat("ranks ", first, " to ", end - 1, " are missing");
    report(RankFault::kMissingRank, line, which,
           " in the file that ends here; ", number_of(expected, "rank"),
           " need a line each");
  }

  void check_overlaps() {
    for (const auto& [pair, core] : find_overlaps(file_, hosts_)) {
      const RankEntry& second = file_.entries[pair.first];
      const RankEntry& first = file_.entries[pair.second];
      report(RankFault::kOverlap, second.line, "rank ", second.rank,
             " (slot=", printable(text_of(second.slots), 60),
             ") overlaps rank ", first.rank, " of line ", first.line,
             " (slot=", printable(text_of(first.slots), 60), ") on host ",
             second.host, ", first at core ", core,
             "; give each its own cores");
    }
  }

  void check_product() {
    if (!context_.dims) return;
    const int product = context_.dims->product();
    const int ranks =
        context_.ranks.value_or(static_cast<int>(present_ranks().size()));
    if (product == ranks) return;
    report(RankFault::kProduct, std::max(file_.lines, 1), "topology ",
           context_.dims->text(), " is for ", number_of(product, "rank"),
           ", but ", number_of(ranks, "rank"),
           context_.ranks ? " are started" : " are placed here",
           "; change one of the two");
  }

  const RankFile& file_;
  const RankFileContext& context_;
  const HostIndex hosts_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> lint(const RankFile& file,
                             const RankFileContext& context) {
  return Linter(file, context).run();
}

}  // namespace sheaf::topo
