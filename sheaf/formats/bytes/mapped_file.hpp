#pragma once
// Regular files: open, and mapped into memory.

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "sheaf/formats/bytes/bus_error.hpp"

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

// The whole of a file that is not empty. Pages are read on access and shared by
// the processes of a host. Writing to them does not change the file.
class MappedFile {
 public:
  explicit MappedFile(OpenFile file);  // throws IoError
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::uint8_t* begin() const { return begin_; }
  std::size_t size() const { return file_.size(); }

  // Call after reading. Throws IoError, which names the file, if it has become
  // shorter or was shorter for a time, or if its disk has failed: what was read
  // may be wrong. Logs once if the file was modified otherwise, which is looked
  // at every second. Costs one system call, 0.1 us. Any thread may call it.
  void check() const;

 private:
  void look_for_changes() const;

  OpenFile file_;
  std::uint8_t* begin_;
  std::optional<BusErrorWatch> watch_;
  mutable std::atomic<bool> was_reported_{false};
  mutable std::atomic<bool> was_logged_{false};
  mutable std::atomic<std::time_t> last_look_{-1};  // in seconds
};

}  // namespace sheaf::formats
