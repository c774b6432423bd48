#include "sheaf/base/read_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf {

std::string read_file(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (!file)
    throw IoError(
        concat("cannot open ", path.string(), ": ", std::strerror(errno)));
  std::string content;
  std::array<char, 4096> piece;
  std::size_t count;
  while ((count = std::fread(piece.data(), 1, piece.size(), file)) > 0)
    content.append(piece.data(), count);
  // Opening a folder succeeds; reading it fails.
  const int error = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (error != 0)
    throw IoError(
        concat("cannot read ", path.string(), ": ", std::strerror(error)));
  return content;
}

}  // namespace sheaf
