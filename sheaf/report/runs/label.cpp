#include "sheaf/report/runs/label.hpp"

#include <algorithm>
#include <set>

#include "sheaf/base/error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

// The folder's name without trailing slashes; "." and ".." are resolved.
std::string name_of(const fs::path& folder) {
  fs::path path = folder.lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..") {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error) path = real;
  }
  return path.filename().empty() ? folder.string() : path.filename().string();
}

template <class NameOf>
void rename_equals(std::vector<std::string>& labels,
                   std::span<const fs::path> folders, const NameOf& name) {
  const std::vector<std::string> before = labels;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (std::count(before.begin(), before.end(), before[i]) > 1)
      labels[i] = name(folders[i]);
}

std::vector<std::string> all_different(std::vector<std::string> labels) {
  std::set<std::string> known;
  for (const std::string& label : labels)
    SHEAF_CHECK(known.insert(label).second, "two runs have the label '", label,
                "'; pass each run once, or give each its own --label");
  return labels;
}

}  // namespace

std::string label_of(const fs::path& folder) {
  const std::string name = name_of(folder);
  const std::string part = name.substr(name.rfind('_') + 1);
  return part.empty() ? name : part;
}

std::vector<std::string> labels_of(std::span<const fs::path> folders,
                                   std::span<const std::string> given) {
  SHEAF_CHECK(given.empty() || given.size() == folders.size(), "there are ",
              folders.size(), " runs and ", given.size(),
              " labels; pass one --label per run, in the same order");
  if (!given.empty()) return all_different({given.begin(), given.end()});
  std::vector<std::string> labels;
  for (const fs::path& folder : folders) labels.push_back(label_of(folder));
  rename_equals(labels, folders, name_of);
  rename_equals(labels, folders, [](const fs::path& path) {
    return path.lexically_normal().string();
  });
  return all_different(std::move(labels));
}

}  // namespace sheaf::report
