#include "sheaf/cli/launch/mpi_install.hpp"

#include <stdio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

bool is_executable(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string choose_mpiexec() {
  if (const char* chosen = std::getenv("SHEAF_MPIEXEC")) {
    std::string path = find_executable(chosen);
    SHEAF_CHECK(!path.empty(), "SHEAF_MPIEXEC is '", chosen,
                "', which is not a program; set it to an mpirun or mpiexec");
    return path;
  }
  for (const char* name : {SHEAF_BUILT_WITH_MPIEXEC, "mpirun", "mpiexec"})
    if (std::string path = find_executable(name); !path.empty()) return path;
  throw UsageError(
      "mpirun not found; install Open MPI (openmpi-bin) or MPICH (mpich), or "
      "set SHEAF_MPIEXEC to the path of an mpirun");
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> in(::popen(command.c_str(), "r"),
                                                 ::pclose);
  std::string text;
  std::array<char, 4096> piece;
  while (in && ::fgets(piece.data(), piece.size(), in.get()))
    text += piece.data();
  return text;
}

std::string first_match(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match.str(1)
                                                             : "";
}

}  // namespace

std::string MpiInstall::name() const {
  const std::string family = kind == MpiKind::kOpenMpi ? "Open MPI" : "MPICH";
  return version.empty() ? family : family + " " + version;
}

MpiInstall find_mpi() {
  const std::string path = choose_mpiexec();
  return parse_mpi_version(
      path, output_of(shell_quote({path, "--version"}) + " 2>&1 </dev/null"));
}

MpiInstall parse_mpi_version(const std::string& path, std::string_view output) {
  const std::string text(output);
  if (text.find("Open MPI") != std::string::npos ||
      text.find("OpenRTE") != std::string::npos)
    return {path, MpiKind::kOpenMpi,
            first_match(text, R"(\((?:Open MPI|OpenRTE)\) ([0-9][^\s]*))")};
  // Hydra is the launcher of MPICH and its derivatives.
  if (text.find("HYDRA") != std::string::npos ||
      text.find("Intel(R) MPI") != std::string::npos)
    return {path, MpiKind::kMpich,
            first_match(text, R"(Version:?\s+([0-9][^\s]*))")};
  throw UsageError(concat("'", path, " --version' names neither Open MPI nor ",
                          "MPICH; set SHEAF_MPIEXEC to the mpirun of one"));
}

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

}  // namespace sheaf::cli
