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
  // Now; throw IoError, which names the file.
  std::size_t size_now() const;
  bool was_modified() const;  // since it was opened; its size may be the same

 private:
  std::string path_;
  int descriptor_;
  struct stat first_ {};
};

}  // namespace sheaf::formats
