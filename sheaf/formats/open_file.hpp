#pragma once
// An open regular file.

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace sheaf::formats {

// The destructor closes the file.
class OpenFile {
 public:
  // Throws IoError, which names the file, if it cannot be opened or is a
  // folder, pipe, socket or device; does not wait for a pipe's writer.
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::size_t size() const;  // when it was opened
  struct stat status() const;
  const struct stat& first_status() const { return first_; }

 private:
  std::string path_;
  int descriptor_;
  struct stat first_ {};
};

}  // namespace sheaf::formats
