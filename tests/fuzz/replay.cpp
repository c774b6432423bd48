// Runs stored inputs through a fuzz target, with bounded memory and time, and
// names those that end the process: an uncaught exception, a signal, a report
// of a sanitizer, too much memory or time. Also runs an empty input.
//
//   fuzz_replay TARGET FILE_OR_FOLDER...
//   fuzz_replay --list           the names of all targets
//   fuzz_replay --check FOLDER   all targets have seeds and a dictionary there,
//                                and all folders of seeds have a target
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "sheaf/base/log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
// It reserves terabytes of addresses, which RLIMIT_AS would refuse.
constexpr bool kHasAddressSanitizer = true;
extern "C" const char* __asan_default_options() {
  return "hard_rss_limit_mb=1024:max_allocation_size_mb=512";
}
#else
constexpr bool kHasAddressSanitizer = false;
#endif
extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1";
}

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMostBytes = rlim_t{1} << 30;
constexpr int kMostSeconds = 20;  // of processor time per input
constexpr std::uintmax_t kMostSeedBytes = 200 << 10;

std::vector<fs::path> files_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fprintf(stderr, "fuzz_replay: cannot read %s\n", path.c_str());
    _exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void limit_process() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const rlimit memory{kMostBytes, kMostBytes};
  if (!kHasAddressSanitizer) setrlimit(RLIMIT_AS, &memory);
}

void limit_next_input() {
  const itimerval limit{{0, 0}, {kMostSeconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void run_one(sheaf::fuzz::Target target, const fs::path& path) {
  const std::string content = path.empty() ? "" : content_of(path);
  // A copy of the exact size, so that reading past the end is detected.
  const std::vector<std::uint8_t> input(content.begin(), content.end());
  limit_next_input();
  target({input.data(), input.size()});
}

std::string end_of(int status) {
  if (WIFEXITED(status))
    return "exited with code " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGPROF)
    return "took more than " + std::to_string(kMostSeconds) + " s";
  return std::string("ended by: ") + strsignal(WTERMSIG(status));
}

// The index of the input that a child process runs now.
std::atomic<std::size_t>& shared_position() {
  void* memory =
      mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) std::atomic<std::size_t>(0);
}

// A child process runs the inputs; where one ends it, another one continues
// with the next input.
int replay(const std::string& name, sheaf::fuzz::Target target,
           const std::vector<fs::path>& inputs) {
  int failures = 0;
  auto& at = shared_position();
  while (at < inputs.size()) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      limit_process();
      for (; at < inputs.size(); ++at) run_one(target, inputs[at]);
      exit(0);  // reports leaks and, if built for it, writes the coverage
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++failures;
    const std::string input = at == inputs.size()  ? "after the last input"
                              : inputs[at].empty() ? "empty input"
                                                   : inputs[at].string();
    fprintf(stderr, "fuzz_replay: %s: %s: %s\n", name.c_str(), input.c_str(),
            end_of(status).c_str());
    ++at;
  }
  printf("%s: %zu inputs, %d failed\n", name.c_str(), inputs.size(), failures);
  return failures ? 1 : 0;
}

// The names without extension in a folder that are no targets' names.
std::vector<std::string> strangers_in(const fs::path& folder) {
  std::vector<std::string> result;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!sheaf::fuzz::targets().contains(entry.path().stem().string()))
      result.push_back(entry.path().string());
  return result;
}

int check(const fs::path& folder) {
  std::vector<std::string> faults;
  for (const auto& [name, target] : sheaf::fuzz::targets()) {
    std::uintmax_t bytes = 0;
    const fs::path corpus = folder / "corpus" / name;
    if (fs::is_directory(corpus))
      for (const auto& path : files_in(corpus)) bytes += fs::file_size(path);
    if (bytes == 0) faults.push_back(name + " has no seeds in corpus/" + name);
    if (bytes > kMostSeedBytes)
      faults.push_back(name + " has more than 200 KB of seeds");
    if (!fs::exists(folder / "dictionaries" / (name + ".dict")))
      faults.push_back(name + " has no dictionaries/" + name + ".dict");
  }
  for (const char* kind : {"corpus", "dictionaries"})
    for (const auto& path : strangers_in(folder / kind))
      faults.push_back(path + " has no target");
  for (const auto& fault : faults)
    fprintf(stderr, "fuzz_replay: %s\n", fault.c_str());
  return faults.empty() ? 0 : 1;
}

int list() {
  for (const auto& [name, target] : sheaf::fuzz::targets()) puts(name.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  sheaf::set_log_level(sheaf::LogLevel::kOff);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "--list") return list();
  if (words.size() == 2 && words[0] == "--check") return check(words[1]);
  const auto target = words.empty() ? sheaf::fuzz::targets().end()
                                    : sheaf::fuzz::targets().find(words[0]);
  if (target == sheaf::fuzz::targets().end()) {
    fprintf(stderr,
            "usage: fuzz_replay TARGET FILE_OR_FOLDER... | --list | "
            "--check FOLDER\n");
    return 2;
  }
  std::vector<fs::path> inputs{""};
  for (std::size_t i = 1; i < words.size(); ++i)
    for (const auto& path : files_in(words[i])) inputs.push_back(path);
  return replay(target->first, target->second, inputs);
}
