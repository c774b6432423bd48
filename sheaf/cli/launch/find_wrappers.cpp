#include "sheaf/cli/launch/find_wrappers.hpp"

#include <fstream>
#include <string>

namespace sheaf::cli {
namespace {

std::string proc(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream in(proc(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> children;
  for (pid_t child; in >> child;) children.push_back(child);
  return children;
}

// Whether the first argument is "rank-exec". The command lines of mpirun, and
// of its child before exec, contain the word too, but further back.
bool is_wrapper(pid_t pid) {
  std::ifstream in(proc(pid) + "/cmdline");
  std::string word;
  std::getline(in, word, '\0');
  std::getline(in, word, '\0');
  return word == "rank-exec";
}

}  // namespace

std::vector<pid_t> wrappers_below(pid_t launcher) {
  std::vector<pid_t> wrappers;
  for (const pid_t child : children_of(launcher)) {
    if (is_wrapper(child)) {
      wrappers.push_back(child);
      continue;
    }
    const std::vector<pid_t> below = wrappers_below(child);
    wrappers.insert(wrappers.end(), below.begin(), below.end());
  }
  return wrappers;
}

}  // namespace sheaf::cli
