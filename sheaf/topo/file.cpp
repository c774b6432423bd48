#include "sheaf/topo/file.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::topo {
namespace {

void write_and_sync(const std::string& path, std::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr)
    throw IoError(concat("cannot create ", path, ": ", std::strerror(errno)));
  bool is_good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  is_good = std::fflush(file) == 0 && is_good;
  is_good = ::fsync(::fileno(file)) == 0 && is_good;
  const int error = errno;
  if (std::fclose(file) == 0 && is_good) return;
  std::remove(path.c_str());
  throw IoError(concat("cannot write ", path, ": ", std::strerror(error)));
}

}  // namespace

std::string read_text(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr)
    throw IoError(concat("cannot open ", path, ": ", std::strerror(errno)));
  std::string text;
  std::array<char, 4096> piece;
  std::size_t count;
  while ((count = std::fread(piece.data(), 1, piece.size(), file)) > 0)
    text.append(piece.data(), count);
  // A folder opens, and fails when it is read.
  const int error = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (error != 0)
    throw IoError(concat("cannot read ", path, ": ", std::strerror(error)));
  return text;
}

void write_text_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = concat(path, ".", ::getpid(), ".tmp");
  write_and_sync(temporary, text);
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  std::remove(temporary.c_str());
  throw IoError(concat("cannot rename ", temporary, " to ", path, ": ",
                       std::strerror(error)));
}

}  // namespace sheaf::topo
