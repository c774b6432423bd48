#pragma once
// Runs of the command `sheaf` as a process, for tests.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

// The command is in the build folder, the tests are one folder below.
inline std::string sheaf_program() {
#ifdef SHEAF_PROGRAM
  return SHEAF_PROGRAM;
#else
  const std::filesystem::path test = this_executable();
  return (test.parent_path().parent_path() / "sheaf").string();
#endif
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_file(const std::filesystem::path& path,
                       const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// For shell programs: sets R to the rank, whichever MPI has started it.
inline const std::string kRank = "R=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; ";

// Waits for a condition; false if it does not become true within a minute.
template <class Condition>
bool eventually(Condition condition) {
  const auto limit = Clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (Clock::now() > limit) return false;
    ::usleep(5000);
  }
  return true;
}

// Whether the process still runs; a zombie does not.
inline bool is_running(const std::string& pid) {
  const std::string status = read_file("/proc/" + pid + "/stat");
  const std::size_t name_end = status.rfind(')');
  return name_end != std::string::npos && status.substr(name_end + 2, 1) != "Z";
}

struct RunResult {
  int code = 0;
  std::string out;
  std::string err;
};

// Each parameter is an MPI launcher that is installed.
class RunSheaf : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "sheaf-run-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ::setenv("SHEAF_MPIEXEC", GetParam().c_str(), 1);
    ::setenv("SHEAF_RUN_GRACE", "3", 1);
    ::unsetenv("SHEAF_OPTIONS");
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      finish();
    }
    std::filesystem::remove_all(folder_);
  }

  bool is_mpich() const {
    return GetParam().find("mpich") != std::string::npos;
  }
  std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }

  // Starts sheaf with these arguments; standard input is the file "in".
  void start(const std::vector<std::string>& arguments) {
    std::vector<std::string> words{sheaf_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::ofstream(folder_ / "in", std::ios::app);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(::open(file("in").c_str(), O_RDONLY), STDIN_FILENO);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    ::dup2(::open(file("out").c_str(), flags, 0600), STDOUT_FILENO);
    ::dup2(::open(file("err").c_str(), flags, 0600), STDERR_FILENO);
    exec_command(words);
    ::_exit(125);
  }

  RunResult finish() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {code_of_wait_status(status), read_file(file("out")),
            read_file(file("err"))};
  }

  RunResult run(const std::vector<std::string>& arguments) {
    start(arguments);
    return finish();
  }

  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

inline std::vector<std::string> installed_mpis() {
  std::vector<std::string> names;
  for (const char* name : {"mpirun.openmpi", "mpirun.mpich"})
    if (!find_executable(name).empty()) names.push_back(name);
  if (names.empty() && !find_executable("mpirun").empty())
    names.push_back("mpirun");
  return names;
}

inline std::string mpi_test_name(
    const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(info.param.rfind('.') + 1);
}

}  // namespace sheaf::cli
