#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/report/draw/scene.hpp"

extern char** environ;

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

// Removes the file in the destructor, if it exists.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

constexpr int kNotFound = 127;

// The exit code of rsvg-convert; kNotFound if it is not installed.
int convert(const fs::path& svg, const fs::path& png) {
  const char* words[] = {"rsvg-convert", "--zoom",    "2",    "--output",
                         png.c_str(),    svg.c_str(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0], &quiet, nullptr,
                                 const_cast<char**>(words), environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (error != 0) return kNotFound;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool write_png(const Scene& scene, const fs::path& file) {
  const std::string stem = concat(file.string(), ".tmp.", getpid());
  const TemporaryFile svg(stem + ".svg");
  const TemporaryFile png(stem + ".png");
  write_file_atomically(svg.path(), svg_of(scene, {.has_dark = false}));
  const int code = convert(svg.path(), png.path());
  if (code == kNotFound) return false;
  std::error_code error;
  if (code == 0) fs::rename(png.path(), file, error);
  if (code != 0 || error)
    throw IoError(concat("rsvg-convert cannot write ", file.string(),
                         " (exit code ", code, ")",
                         error ? ": " + error.message() : ""));
  return true;
}

}  // namespace sheaf::report
