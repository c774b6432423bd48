#pragma once
// The files of each dataset in the catalog.

#include <cstdint>
#include <string>
#include <vector>

namespace sheaf::data {

struct KnownFile {
  std::string name;
  std::uint32_t crc32 = 0;  // of the uncompressed content; 0: unknown
};

// The files of a split; images precede labels. Throws UsageError if the split
// is neither "train" nor "test".
std::vector<KnownFile> known_files(const std::string& name,
                                   const std::string& split);

}  // namespace sheaf::data
