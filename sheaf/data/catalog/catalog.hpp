#pragma once
// The datasets that are known by name: where they are, how to get them,
// whether they are whole.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

struct CatalogEntry {
  std::string name;
  std::vector<std::int64_t> shape;  // of an example
  std::int64_t classes = 0;
  std::int64_t train = 0;  // examples
  std::int64_t test = 0;
  std::string system_folder = "";  // where a package puts it
  std::string how_to_get = "";     // for people who do not have it
};

// Those that come as files: mnist, fashion-mnist, cifar10, cifar100.
std::span<const CatalogEntry> catalog();
// UsageError lists the names and the one that may be meant.
const CatalogEntry& catalog_entry(std::string_view name);

// Where datasets are kept: $SHEAF_DATA, else ~/.cache/sheaf.
std::string data_root();

// The folder that has all files of the dataset, or "" if none has. Looks in
// `folder` only where one is given, else in data_root()/name, then in the
// system's folder.
std::string find_dataset(const std::string& name,
                         const std::string& folder = "");

// The first folder of that search that has some of the files, but not all, and
// which are missing: "; FOLDER has some of its files and lacks ..."; "" if
// there is none.
std::string missing_files_text(const std::string& name,
                               const std::string& folder = "");

// A split, "train" or "test", of a dataset in the catalog; of "synthetic"; of
// "images", the image folder `folder`/split (bytes, three channels, of one
// size), whose classes are numbered as the folders in `folder`/train, if there
// is one; or of "npy", the arrays <split>_data.npy and <split>_target.npy in
// `folder`. IoError where files are missing, which it names, saying how to get
// them, or broken. UsageError for images of a class that `folder`/train lacks.
std::shared_ptr<Dataset> open_dataset(const std::string& name,
                                      const std::string& split,
                                      const std::string& folder = "");

// The names that open_dataset() understands.
std::vector<std::string_view> dataset_names();

struct CheckedFile {
  std::string path;
  std::int64_t bytes = 0;   // unpacked
  std::uint32_t crc32 = 0;  // of the unpacked bytes
};

// Reads all files of a dataset in the catalog and gives them. IoError unless
// sizes, magic numbers, counts, labels and checksums are those of the dataset
// as it was published (for CIFAR, whose checksums are not known here: unless
// every class has its number of examples).
std::vector<CheckedFile> check_dataset(const std::string& name,
                                       const std::string& folder);

}  // namespace sheaf::data
