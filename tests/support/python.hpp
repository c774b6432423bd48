#pragma once
// Python programs that tests compare with. If Python or a module is missing,
// the test is skipped with the reason.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/missing.hpp"

namespace sheaf {

// A Python that has `module`, or "". Debian's modules are for Debian's Python.
inline std::string python_with(const std::string& module) {
  static std::map<std::string, std::string> found;
  if (const auto known = found.find(module); known != found.end())
    return known->second;
  for (const std::string python : {"/usr/bin/python3", "python3"}) {
    const std::string probe =
        python + " -c 'import " + module + "' >/dev/null 2>&1";
    if (std::system(probe.c_str()) == 0) return found[module] = python;
  }
  return found[module] = "";
}

// Runs the program in `folder` and returns its output; if it fails, the test
// fails.
inline std::string run_python(const std::string& python,
                              const std::filesystem::path& folder,
                              const std::string& program) {
  std::ofstream(folder / "program.py") << program;
  const std::string line = "cd '" + folder.string() +
                           "' && OMP_NUM_THREADS=1 " + python +
                           " program.py 2>&1";
  std::FILE* pipe = popen(line.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (pipe && std::fgets(buffer.data(), buffer.size(), pipe))
    output += buffer.data();
  EXPECT_EQ(pipe ? pclose(pipe) : -1, 0) << output;
  return output;
}

}  // namespace sheaf

#define SHEAF_NEEDS_PYTHON(module)                         \
  const std::string python = ::sheaf::python_with(module); \
  if (python.empty())                                      \
  SHEAF_SKIP_MISSING("no python3 with the module " module  \
                     " is here; "                          \
                     "install python3-" module)
