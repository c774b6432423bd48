#pragma once
// Advisory locks on files (flock), which exclude other processes and other
// locks of this process. A lock ends when it is destroyed or its process ends,
// however it ends. Child processes do not keep it.
//
// On NFS the lock is held by the server, and excludes processes on all hosts.
// Some file systems have no locks: Lustre mounted without -o flock, NFS without
// a lock service, some FUSE file systems.

#include <filesystem>
#include <string>
#include <string_view>

namespace sheaf {

// Not thread-safe; movable. Empty after construction without a path.
class FileLock {
 public:
  enum class State {
    kHeld,
    kHeldByOther,
    kNotSupported,  // by the file system
    kNotWritable,   // the file cannot be opened for writing: see problem()
  };

  FileLock() = default;
  // Tries to lock the file, which is created if it does not exist. Does not
  // wait. A lock that is not held has no effect.
  explicit FileLock(std::filesystem::path file);
  // Removes the file if the constructor has created it and it is empty, unless
  // keep_file() was called. Replaces what write_holder() wrote by "not locked".
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  State state() const { return state_; }
  bool is_held() const { return state_ == State::kHeld; }
  std::string problem() const;  // the error, of kNotSupported, kNotWritable
  void keep_file() { is_created_ = false; }

  // Writes who holds the lock into the file: "process 123 on host a". Errors
  // are ignored.
  void write_holder();
  // What the file says about its holder, limited to printable characters; empty
  // if unknown.
  std::string holder() const;

 private:
  void open();
  void lock();
  bool is_current() const;
  bool is_empty() const noexcept;
  bool write(std::string_view text) const noexcept;
  void release() noexcept;

  std::filesystem::path file_;
  int fd_ = -1;
  State state_ = State::kNotWritable;
  int error_ = 0;
  bool is_created_ = false;
  bool has_written_ = false;
};

}  // namespace sheaf
