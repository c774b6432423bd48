#include "sheaf/formats/bytes/file_bytes.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/bytes/gzip.hpp"
#include "sheaf/formats/bytes/mapped_file.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::formats {
namespace {

// The number of bytes read: 0 at the end of the file.
std::size_t read_some(const OpenFile& file, std::uint8_t* to,
                      std::size_t count) {
  while (true) {
    const ssize_t got = ::read(file.descriptor(), to, count);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR)
      throw IoError(
          concat("cannot read ", file.path(), ": ", std::strerror(errno)));
  }
}

FileBytes read_packed(const OpenFile& file) {
  const std::size_t size = file.size();
  Memory memory = allocate(file.path(), "its content", size);
  FileBytes content{file.path(), {memory.release(), FreeBytes()}, size};
  std::size_t filled = 0;
  while (filled < size) {
    const std::size_t part = std::min(size - filled, kMemoryPart);
    check_memory(file.path(), "its content", part);
    const std::size_t got =
        read_some(file, content.memory.get() + filled, part);
    if (got == 0) content.fail(filled, "the file ends early");
    filled += got;
  }
  return content;
}

}  // namespace

bool FileBytes::begins_with(std::span<const std::uint8_t> first) const {
  return size >= first.size() && std::equal(first.begin(), first.end(), data());
}

void FileBytes::fail(std::size_t offset, std::string_view what) const {
  throw IoError(concat(path, ": ", what, ", at byte ", offset,
                       was_unpacked ? " of its decompressed content" : ""));
}

void FileBytes::check_mapping() const {
  if (mapping) mapping->check();
}

FileBytes read_bytes(const std::string& path) {
  const FileBytes content = read_packed(OpenFile(path));
  return is_gzip(content.bytes()) ? unpack_gzip(content) : content;
}

FileBytes map_bytes(const std::string& path) {
  OpenFile file(path);
  if (file.size() == 0) return {path, {}, 0};
  const auto mapping = std::make_shared<MappedFile>(std::move(file));
  const FileBytes content{
      path, {mapping, mapping->begin()}, mapping->size(), false, mapping};
  if (!is_gzip(content.bytes())) return content;
  FileBytes unpacked = unpack_gzip(content);
  content.check_mapping();
  return unpacked;
}

FileBytes view_bytes(std::string path, std::span<const std::uint8_t> bytes) {
  // Without an owner; nothing writes through it.
  const std::shared_ptr<std::uint8_t> memory(
      std::shared_ptr<void>(), const_cast<std::uint8_t*>(bytes.data()));
  return {std::move(path), memory, bytes.size()};
}

std::uint32_t crc32_of(const FileBytes& file) {
  return static_cast<std::uint32_t>(crc32_z(0, file.data(), file.size));
}

}  // namespace sheaf::formats
