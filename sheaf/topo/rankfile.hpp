#pragma once
// Rank files of Open MPI, which assign hosts and cores to ranks.
//   rank 0=alpha slot=0-3       cores 0 to 3 of host alpha
//   rank 1=alpha slot=1:0-1     cores 0 and 1 of its socket 1
//   rank 2=+n1 slot=0,2         host number 1 (from 0) of the host list
//   rank 3=beta slot=0:*;1:0    all of socket 0, and core 0 of socket 1
// Indexes are logical, as in hwloc; '#' begins a comment.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/topo/dims.hpp"

namespace sheaf::topo {

struct CoreRange {
  static constexpr int kWholeHost = -1;  // as `socket`: over all sockets
  static constexpr int kAllCores = -1;   // as `last`: up to the last core
  int socket = kWholeHost;
  int first = 0;
  int last = 0;
  bool operator==(const CoreRange&) const = default;
};

struct RankEntry {
  int line = 0;  // in the file, from 1
  int rank = 0;
  std::string host;
  std::vector<CoreRange> slots;
};

struct RankFile {
  std::string path;
  int lines = 0;
  std::vector<RankEntry> entries;
};

enum class RankFault {
  kSyntax,
  kUnknownHost,
  kMissingRank,
  kExtraRank,
  kDuplicateRank,
  kNoSuchCore,
  kOverlap,
  kProduct,
};

std::string_view name_of(RankFault fault) noexcept;  // "unknown_host" ...

struct Diagnostic {
  RankFault fault;
  int line = 0;
  std::string text;  // "file:line: what is wrong"
};

// Invalid lines are skipped and reported in `faults`; after 100 of them, the
// rest of the file is not read.
RankFile parse_rankfile(std::string_view text, const std::string& path,
                        std::vector<Diagnostic>& faults);

// Throws IoError if the file cannot be read, and UsageError with all syntax
// errors.
RankFile read_rankfile(const std::string& path);

std::string text_of(const RankFile& file);
std::string text_of(const std::vector<CoreRange>& slots);  // "0-3;1:0"
void write_rankfile(const RankFile& file, const std::string& path);

struct HostShape {
  std::string name;
  std::vector<int> socket_cores;  // empty: unknown
};

// The expectations for lint(); empty members are not checked.
struct RankFileContext {
  std::vector<HostShape> hosts;  // in the order of +n0, +n1 ...
  std::optional<int> ranks;
  std::optional<Dims> dims;
};

// Returns all problems, ordered by line; empty if the file fits the context.
std::vector<Diagnostic> lint(const RankFile& file,
                             const RankFileContext& context);

// One line per diagnostic.
std::string text_of(const std::vector<Diagnostic>& diagnostics);

// Makes the rank file of DDL's rank_gen: dims[0] ranks on each host, each with
// an equal share of its `cores` cores; ranks are numbered host by host. Throws
// UsageError unless the number of hosts is the product of the other dimensions.
RankFile make_rankfile(const Dims& dims, const std::vector<std::string>& hosts,
                       int cores);

}  // namespace sheaf::topo
