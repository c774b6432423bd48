#pragma once
// Environment variables for the duration of a test.

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sheaf::test {

// Sets one variable, and restores it at the end.
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

// Unsets all of the variables, and restores them at the end.
class ScopedVariables {
 public:
  using Values = std::map<std::string, std::string>;

  explicit ScopedVariables(std::vector<std::string> names)
      : names_(std::move(names)) {
    for (const std::string& name : names_)
      if (const char* old = std::getenv(name.c_str())) before_[name] = old;
    set({});
  }
  ~ScopedVariables() { set(before_); }
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

  // Sets some of the variables and unsets the others.
  void set(const Values& values) const {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : values)
      ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  const std::vector<std::string> names_;
  Values before_;
};

}  // namespace sheaf::test
