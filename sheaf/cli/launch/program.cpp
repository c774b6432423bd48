#include "sheaf/cli/launch/program.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

bool is_executable(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_executable(const std::string& program) {
  if (program.empty()) return "";
  if (program.find('/') != std::string::npos)
    return is_executable(program) ? program : "";
  const char* variable = std::getenv("PATH");
  std::string path = variable ? variable : "/usr/bin:/bin";
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    std::string file = path.substr(start, end - start) + "/" + program;
    if (is_executable(file)) return file;
    start = end + 1;
  }
  return "";
}

void check_executable(const std::string& program) {
  if (!find_executable(program).empty()) return;
  std::error_code ignored;
  const bool has_slash = program.find('/') != std::string::npos;
  SHEAF_CHECK(!fs::is_directory(program, ignored) || !has_slash, "'", program,
              "' is a directory, not a program");
  SHEAF_CHECK(!fs::exists(program, ignored) || !has_slash, "'", program,
              "' is not executable; try chmod +x ", program);
  SHEAF_CHECK(has_slash || !is_executable("./" + program), "there is no '",
              program, "' on PATH; for the one in this directory write ./",
              program);
  throw UsageError(concat("there is no program '", program, "'",
                          has_slash ? "" : " on PATH"));
}

std::string this_executable() {
  return fs::read_symlink("/proc/self/exe").string();
}

std::string torch_program() {
  const fs::path here = this_executable();
  std::string program = (here.parent_path() / "sheaf-torch").string();
  SHEAF_CHECK(!find_executable(program).empty(), "there is no ", program,
              ": this sheaf was built without libtorch; install libtorch and "
              "build with -DSHEAF_WITH_TORCH=ON");
  return program;
}

void become_torch_program(const std::vector<std::string>& words) {
  std::vector<std::string> command{torch_program()};
  command.insert(command.end(), words.begin(), words.end());
  choose_openblas_kernels();
  exec_command(command);
  throw IoError(
      concat("cannot start ", command[0], ": ", std::strerror(errno)));
}

}  // namespace sheaf::cli
