#pragma once
// Which files a dataset of the catalog has.

#include <cstdint>
#include <string>
#include <vector>

namespace sheaf::data {

struct KnownFile {
  std::string name;
  std::uint32_t crc32 = 0;  // of the unpacked content; 0: not known
};

// UsageError for a split that is neither "train" nor "test". Images before
// labels.
std::vector<KnownFile> known_files(const std::string& name,
                                   const std::string& split);

}  // namespace sheaf::data
