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
  const fs::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const WorkFolder work(parent, ".sheaf-png-");
  const fs::path svg = work.path() / "scene.svg",
                 png = work.path() / "scene.png";
  write_file_atomically(svg, svg_of(scene, {.has_dark = false}));
  const int code = convert(svg, png);
  if (code == kNotFound) return false;
  if (code != 0)
    throw IoError(concat("rsvg-convert cannot write ", file.string(),
                         " (exit code ", code, ")"));
  write_file_atomically(file, read_file(png));
  return true;
}

}  // namespace sheaf::report
