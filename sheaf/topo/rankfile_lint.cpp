#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/topo/rankfile.hpp"
#include "sheaf/topo/text.hpp"

namespace sheaf::topo {
namespace {

int total_cores(const HostShape& host) {
  int total = 0;
  for (const int cores : host.socket_cores) total += cores;
  return total;
}

std::string number_of(int count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

class Linter {
 public:
  Linter(const RankFile& file, const RankFileContext& context)
      : file_(file), context_(context) {}

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
    return std::move(found_);
  }

 private:
  template <class... Args>
  void report(RankFault fault, int line, const Args&... args) {
    found_.push_back(
        {fault, line, concat(file_.path, ":", line, ": ", args...)});
  }

  // The host of an entry; nothing when hosts are not known or it is not one.
  const HostShape* host_of(const RankEntry& entry) const {
    if (entry.host.starts_with("+n")) {
      const auto index = parse_count(entry.host.substr(2));
      const bool is_there =
          index && static_cast<std::size_t>(*index) < context_.hosts.size();
      return is_there ? &context_.hosts[*index] : nullptr;
    }
    for (const HostShape& host : context_.hosts)
      if (host.name == entry.host) return &host;
    return nullptr;
  }

  std::string host_names() const {
    std::vector<std::string_view> names;
    for (const HostShape& host : context_.hosts) names.push_back(host.name);
    return join(names);
  }

  void check_entry(const RankEntry& entry) {
    if (context_.ranks && entry.rank >= *context_.ranks)
      report(RankFault::kExtraRank, entry.line, "rank ", entry.rank,
             " is too high: ", number_of(*context_.ranks, "rank"),
             " are started, 0 to ", *context_.ranks - 1,
             "; remove the line or start more (-n)");
    const HostShape* host = host_of(entry);
    if (host != nullptr)
      check_cores(entry, *host);
    else if (!context_.hosts.empty())
      report(RankFault::kUnknownHost, entry.line, "unknown host '", entry.host,
             "'; known are ", host_names(),
             entry.host[0] == '+'
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
    if (range.last < cores) return;  // kAllCores, too
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

  // Ranks, and how many there should be.
  int expected_ranks(const std::vector<int>& present) const {
    if (context_.ranks) return *context_.ranks;
    if (context_.dims) return context_.dims->product();
    return present.empty() ? 0 : present.back() + 1;
  }

  void check_missing() {
    std::vector<int> present;
    for (const RankEntry& entry : file_.entries) present.push_back(entry.rank);
    std::sort(present.begin(), present.end());
    const int expected = expected_ranks(present);
    int next = 0;
    for (const int rank : present) {
      if (rank >= expected) break;
      report_gap(next, rank, expected);
      next = std::max(next, rank + 1);
    }
    report_gap(next, expected, expected);
  }

  // Ranks `first` up to but without `end` have no line.
  void report_gap(int first, int end, int expected) {
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

  // A range as cores of the whole host where its shape is known.
  struct Span {
    int socket;
    long first;
    long last;
  };
  Span span_of(const HostShape* host, const CoreRange& range) const {
    const bool has_open_end = range.last == CoreRange::kAllCores;
    if (host == nullptr || range.socket == CoreRange::kWholeHost ||
        range.socket >= static_cast<int>(host->socket_cores.size()))
      return {range.socket, range.first,
              has_open_end ? std::numeric_limits<int>::max() : range.last};
    long before = 0;
    for (int i = 0; i < range.socket; ++i) before += host->socket_cores[i];
    const int last =
        has_open_end ? host->socket_cores[range.socket] - 1 : range.last;
    return {CoreRange::kWholeHost, before + range.first, before + last};
  }

  std::optional<long> first_shared(const RankEntry& a,
                                   const RankEntry& b) const {
    const HostShape* host = host_of(a);
    if (host != host_of(b) || (host == nullptr && a.host != b.host))
      return std::nullopt;
    for (const CoreRange& range_a : a.slots) {
      for (const CoreRange& range_b : b.slots) {
        const Span x = span_of(host, range_a), y = span_of(host, range_b);
        if (x.socket == y.socket && x.first <= y.last && y.first <= x.last)
          return std::max(x.first, y.first);
      }
    }
    return std::nullopt;
  }

  void check_overlaps() {
    const auto& entries = file_.entries;
    for (std::size_t j = 1; j < entries.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (entries[i].rank == entries[j].rank) continue;
        const auto core = first_shared(entries[i], entries[j]);
        if (!core) continue;
        report(RankFault::kOverlap, entries[j].line, "rank ", entries[j].rank,
               " (slot=", text_of(entries[j].slots), ") overlaps rank ",
               entries[i].rank, " of line ", entries[i].line,
               " (slot=", text_of(entries[i].slots), ") on host ",
               entries[j].host, ", first at core ", *core,
               "; give each its own cores");
      }
    }
  }

  int distinct_ranks() const {
    std::map<int, int> ranks;
    for (const RankEntry& entry : file_.entries) ++ranks[entry.rank];
    return static_cast<int>(ranks.size());
  }

  void check_product() {
    if (!context_.dims) return;
    const int product = context_.dims->product();
    const int ranks = context_.ranks.value_or(distinct_ranks());
    if (product == ranks) return;
    report(RankFault::kProduct, std::max(file_.lines, 1), "topology ",
           context_.dims->text(), " is for ", number_of(product, "rank"),
           ", but ", number_of(ranks, "rank"),
           context_.ranks ? " are started" : " are placed here",
           "; change one of the two");
  }

  const RankFile& file_;
  const RankFileContext& context_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> lint(const RankFile& file,
                             const RankFileContext& context) {
  return Linter(file, context).run();
}

}  // namespace sheaf::topo
