#include "sheaf/topo/rankfile.hpp"

#include <algorithm>
#include <array>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/topo/host_list.hpp"

namespace sheaf::topo {
namespace {

constexpr std::size_t kMostFaults = 100;   // more are not listed
constexpr std::size_t kMostRanges = 4096;  // of cores, in a line

int parse_index(std::string_view text, std::string_view what) {
  const std::optional<int> index = parse_count(text);
  SHEAF_CHECK(index, what, " '", printable(text, 40),
              "' is not a whole number >= 0");
  return *index;
}

// "3", "0-3", or "*" in a socket.
CoreRange parse_range(std::string_view text, int socket) {
  if (text == "*") {
    SHEAF_CHECK(socket != CoreRange::kWholeHost,
                "'*' needs a socket before it, such as 0:*");
    return {socket, 0, CoreRange::kAllCores};
  }
  const std::size_t dash = text.find('-');
  const int first = parse_index(text.substr(0, dash), "core");
  if (dash == std::string_view::npos) return {socket, first, first};
  const int last = parse_index(text.substr(dash + 1), "core");
  SHEAF_CHECK(first <= last, "core range '", printable(text, 40),
              "' is in descending order; write ", last, "-", first);
  return {socket, first, last};
}

// In "1:0,2" both cores are of socket 1; ';' ends the list of a socket.
std::vector<CoreRange> parse_slots(std::string_view text) {
  std::vector<CoreRange> slots;
  for (const std::string_view part : split(text, ';')) {
    int socket = CoreRange::kWholeHost;
    for (std::string_view item : split(part, ',')) {
      const std::size_t colon = item.find(':');
      if (colon != std::string_view::npos) {
        socket = parse_index(trim(item.substr(0, colon)), "socket");
        item.remove_prefix(colon + 1);
      }
      SHEAF_CHECK(slots.size() < kMostRanges, "there are more than ",
                  kMostRanges, " ranges of cores; write ranges such as 0-3");
      slots.push_back(parse_range(trim(item), socket));
    }
  }
  return slots;
}

// Removes `word` and the blanks after it from the front of `text`.
bool take(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text = trim(text.substr(word.size()));
  return true;
}

std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::size_t end = std::min(text.find_first_of(ends), text.size());
  const std::string_view taken = text.substr(0, end);
  text = trim(text.substr(end));
  return taken;
}

RankEntry parse_entry(std::string_view text, int line) {
  constexpr std::string_view kForm = "write 'rank N=host slot=cores'";
  RankEntry entry{line, 0, "", {}};
  SHEAF_CHECK(take(text, "rank"), "'", printable(text, 60),
              "' is not a rank line; ", kForm);
  const std::string_view rank = take_until(text, " \t=");
  SHEAF_CHECK(!rank.empty(), "the rank's number is missing; ", kForm);
  entry.rank = parse_index(rank, "rank");
  SHEAF_CHECK(take(text, "="), "'=' is missing after rank ", rank, "; ", kForm);
  entry.host = take_until(text, " \t=");
  SHEAF_CHECK(!entry.host.empty() && !text.starts_with('='),
              "the host of rank ", rank, " is missing; ", kForm);
  if (entry.host[0] == '+')
    SHEAF_CHECK(
        entry.host.substr(0, 2) == "+n" && parse_count(entry.host.substr(2)),
        "relative host '", printable(entry.host, 60),
        "' is not valid; write +n0, +n1 ...");
  else
    check_host_name(entry.host, "");
  SHEAF_CHECK(take(text, "slot"), "the cores of rank ", rank, " are missing; ",
              kForm);
  take(text, "s");  // "slots" is equivalent
  SHEAF_CHECK(take(text, "="), "'=' is missing after slot; ", kForm);
  SHEAF_CHECK(!text.empty(),
              "the list of cores after slot= is empty; write "
              "for example 0-3");
  entry.slots = parse_slots(text);
  return entry;
}

}  // namespace

std::string_view name_of(RankFault fault) noexcept {
  constexpr std::array<std::string_view, 8> kNames{
      "syntax",         "unknown_host", "missing_rank", "extra_rank",
      "duplicate_rank", "no_such_core", "overlap",      "product"};
  return kNames[static_cast<std::size_t>(fault)];
}

RankFile parse_rankfile(std::string_view text, const std::string& path,
                        std::vector<Diagnostic>& faults) {
  RankFile file{path, 0, {}};
  const auto lines = split(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto content = trim(lines[i].substr(0, lines[i].find('#')));
    if (content.empty()) continue;
    file.lines = static_cast<int>(i) + 1;
    try {
      file.entries.push_back(parse_entry(content, file.lines));
    } catch (const UsageError& error) {
      faults.push_back({RankFault::kSyntax, file.lines,
                        concat(path, ":", file.lines, ": ", error.what())});
      if (faults.size() < kMostFaults) continue;
      faults.push_back({RankFault::kSyntax, file.lines,
                        concat(path, ":", file.lines,
                               ": the rest of the file was not read; correct "
                               "these lines first")});
      return file;
    }
  }
  return file;
}

RankFile read_rankfile(const std::string& path) {
  std::vector<Diagnostic> faults;
  RankFile file = parse_rankfile(read_file(path, kMostTextBytes), path, faults);
  SHEAF_CHECK(faults.empty(), text_of(faults));
  return file;
}

std::string text_of(const std::vector<CoreRange>& slots) {
  std::string text;
  for (const CoreRange& range : slots) {
    // After the list of a socket, Open MPI 4.1 requires ';'.
    if (!text.empty()) text += ';';
    if (range.socket != CoreRange::kWholeHost)
      text += concat(range.socket, ":");
    if (range.last == CoreRange::kAllCores)
      text += '*';
    else if (range.first == range.last)
      text += concat(range.first);
    else
      text += concat(range.first, "-", range.last);
  }
  return text;
}

std::string text_of(const RankFile& file) {
  std::string text;
  for (const RankEntry& entry : file.entries)
    text += concat("rank ", entry.rank, "=", entry.host,
                   " slot=", text_of(entry.slots), "\n");
  return text;
}

std::string text_of(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics)
    text += (text.empty() ? "" : "\n") + diagnostic.text;
  return text;
}

void write_rankfile(const RankFile& file, const std::string& path) {
  write_file_atomically(path, text_of(file));
}

}  // namespace sheaf::topo
