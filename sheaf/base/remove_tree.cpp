#include "sheaf/base/remove_tree.hpp"

#include <ftw.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

constexpr int kOpenFolders = 16;

int remove_one(const char* path, const struct stat*, int, FTW*) {
  return std::remove(path);
}

}  // namespace

void remove_tree(const std::filesystem::path& path) {
  if (::nftw(path.c_str(), remove_one, kOpenFolders, FTW_DEPTH | FTW_PHYS) == 0)
    return;
  if (errno != ENOENT)
    throw IoError(concat("cannot remove ", path.string(), ": ",
                         ::strerrordesc_np(errno)));
}

}  // namespace sheaf
