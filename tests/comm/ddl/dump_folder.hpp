#pragma once
// A separate folder for the files written by a test's ranks.

#include <fstream>
#include <sstream>
#include <string>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::test {

class DumpFolder : public TemporaryFolder {
 public:
  std::filesystem::path file(const std::string& name) const {
    return path() / name;
  }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  ScopedVariable variable_{"SHEAF_DUMP_DIR", path().string()};
};

}  // namespace sheaf::test
