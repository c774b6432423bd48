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

bool try_remove_tree(const std::filesystem::path& path) noexcept {
  const int flags = FTW_DEPTH | FTW_PHYS;
  return ::nftw(path.c_str(), remove_one, kOpenFolders, flags) == 0 ||
         errno == ENOENT;
}

void remove_tree(const std::filesystem::path& path) {
  if (!try_remove_tree(path))
    throw IoError(concat("cannot remove ", path.string(), ": ",
                         ::strerrordesc_np(errno)));
}

}  // namespace sheaf
