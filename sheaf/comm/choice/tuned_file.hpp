#pragma once
// The results of mode `p`, stored on disk. See docs/explanation/algorithms.md
// for the format.

#include <filesystem>
#include <optional>
#include <string>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

struct TunedKey {
  std::string topology;  // hosts, ranks, declared dimensions
  DType dtype = DType::kF32;
  std::size_t bytes = 0;  // the largest size of the size class
};

// SHEAF_TUNED_FILE, or sheaf/tuned.json in XDG_CACHE_HOME or in ~/.cache; empty
// if none of these variables nor HOME is set.
std::filesystem::path tuned_path();

// The text of the choice that was the fastest. A file that cannot be read is
// reported in the log and treated as empty.
std::optional<std::string> recall(const std::filesystem::path& path,
                                  const TunedKey& key);

// Adds or replaces a choice in the file and keeps all other entries. The file
// is replaced atomically. Failures are reported in the log.
void remember(const std::filesystem::path& path, const TunedKey& key,
              const std::string& choice, double microseconds);

}  // namespace sheaf::comm
