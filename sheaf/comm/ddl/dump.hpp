#pragma once
// The file that a rank writes when a check fails: the call, its input and
// output, and a few elements of every rank. See docs/reference/ddl_files.md for
// the format.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/comm/ddl/reference.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

struct DumpHost {
  std::string name;
  std::vector<int> ranks;  // of the group
  bool operator==(const DumpHost&) const = default;
};

struct Dump {
  int rank = 0;  // in the group
  int world_rank = 0;
  int group = 0;
  std::uint64_t iteration = 0;  // number of the all-reduce in its group
  Fingerprint call;
  std::vector<std::uint64_t> counts;  // element counts of the buffers
  double check = 0;
  std::vector<DumpHost> hosts;
  std::string options;
  std::string transport;
  Verdict verdict;     // of this rank's output
  int worst_rank = 0;  // rank with the worst output
  Finding worst;       // its worst element

  std::vector<std::byte> input;   // all buffers, concatenated
  std::vector<std::byte> output;  // all buffers, concatenated
  // Elements [window_first, window_first + window_count) of every rank's
  // input, rank by rank: the worst element and its neighbors.
  std::uint64_t window_first = 0;
  std::uint64_t window_count = 0;
  std::vector<std::byte> window;

  int size() const;  // number of ranks of the group
  CheckRule rule() const { return {call.dtype, call.op, check}; }
};

// sheaf.dump.<world rank>.<iteration>, followed by ".group<id>" for groups
// other than the world, in SHEAF_DUMP_DIR or the working folder.
std::filesystem::path dump_path(int world_rank, std::uint64_t iteration,
                                int group);

// A file begins with the magic, the version, and the size and checksum of its
// header.
inline constexpr std::string_view kDumpMagic = "SHEAFDMP";
inline constexpr std::uint32_t kDumpVersion = 1;
inline constexpr std::size_t kDumpPreambleBytes = 8 + 4 + 4 + 4;

// CRC-32 as in zlib and PNG.
std::uint32_t crc32(std::string_view bytes) noexcept;

inline std::string_view view_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Convert between a dump and the bytes of its file. parse_dump() throws
// IoError, which names `path` and the offset, if the bytes are truncated,
// damaged or of another version.
std::string format_dump(const Dump& dump);
Dump parse_dump(const std::string& bytes, const std::string& path);

void write_dump(const Dump& dump, const std::filesystem::path& path);
Dump read_dump(const std::filesystem::path& path);

}  // namespace sheaf::comm
