#pragma once
// Runs commands of `sheaf` in the process of the test.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sheaf/cli/command/commands.hpp"

namespace sheaf::cli {

struct CallOutcome {
  int code;
  std::string out;
  std::string err;
};

inline CallOutcome call_sheaf(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"sheaf"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_cli(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(),
          testing::internal::GetCapturedStderr()};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sheaf::cli
