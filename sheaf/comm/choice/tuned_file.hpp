#pragma once
// What mode `p` found, remembered on disk. docs/ddl.md describes the file.

#include <filesystem>
#include <optional>
#include <string>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

struct TunedKey {
  std::string topology;  // hosts, ranks, declared dimensions
  DType dtype = DType::kF32;
  std::size_t bytes = 0;  // the largest of its size class
};

// SHEAF_TUNED_FILE, or sheaf/tuned.json in XDG_CACHE_HOME or in ~/.cache;
// empty where there is no such place.
std::filesystem::path tuned_path();

// The choice that was the fastest, by its text. A file that cannot be
// understood is reported in the log and taken for an empty one.
std::optional<std::string> recall(const std::filesystem::path& path,
                                  const TunedKey& key);

// Adds a choice to the file, or changes it; what else is in there stays. A
// reader sees the old file or the new one. A failure is reported in the log.
void remember(const std::filesystem::path& path, const TunedKey& key,
              const std::string& choice, double microseconds);

}  // namespace sheaf::comm
