#pragma once
// A separate folder for the files written by a test's ranks, and an environment
// variable that is set for the duration of a test.

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace sheaf::test {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

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
