#pragma once
// System calls that concern files.

#include <sys/syscall.h>

#include <cstdint>
#include <span>

namespace sheaf::crash {

// Where a call has its paths: argument numbers, or -1. A path may be relative
// to the file descriptor in another argument.
struct CallForm {
  long number;
  const char* name;
  int path = -1;
  int folder = -1;  // of `path`
  int other = -1;
  int other_folder = -1;
  int fd = -1;
  bool changes = false;
  int flags = -1;  // of open(): the call changes something if it may create
};

inline std::span<const CallForm> call_forms() {
  static constexpr CallForm kForms[] = {
      {.number = SYS_open, .name = "open", .path = 0, .flags = 1},
      {.number = SYS_openat,
       .name = "openat",
       .path = 1,
       .folder = 0,
       .flags = 2},
      {.number = SYS_creat, .name = "creat", .path = 0, .changes = true},
      {.number = SYS_mkdir, .name = "mkdir", .path = 0, .changes = true},
      {.number = SYS_mkdirat,
       .name = "mkdirat",
       .path = 1,
       .folder = 0,
       .changes = true},
      {.number = SYS_rmdir, .name = "rmdir", .path = 0, .changes = true},
      {.number = SYS_unlink, .name = "unlink", .path = 0, .changes = true},
      {.number = SYS_unlinkat,
       .name = "unlinkat",
       .path = 1,
       .folder = 0,
       .changes = true},
      {.number = SYS_rename,
       .name = "rename",
       .path = 0,
       .other = 1,
       .changes = true},
      {.number = SYS_renameat,
       .name = "renameat",
       .path = 1,
       .folder = 0,
       .other = 3,
       .other_folder = 2,
       .changes = true},
      {.number = SYS_renameat2,
       .name = "renameat2",
       .path = 1,
       .folder = 0,
       .other = 3,
       .other_folder = 2,
       .changes = true},
      {.number = SYS_link,
       .name = "link",
       .path = 1,
       .other = 0,
       .changes = true},
      {.number = SYS_linkat,
       .name = "linkat",
       .path = 3,
       .folder = 2,
       .changes = true},
      {.number = SYS_symlink, .name = "symlink", .path = 1, .changes = true},
      {.number = SYS_symlinkat,
       .name = "symlinkat",
       .path = 2,
       .folder = 1,
       .changes = true},
      {.number = SYS_truncate, .name = "truncate", .path = 0, .changes = true},
      {.number = SYS_stat, .name = "stat", .path = 0},
      {.number = SYS_lstat, .name = "lstat", .path = 0},
      {.number = SYS_newfstatat, .name = "newfstatat", .path = 1, .folder = 0},
      {.number = SYS_statx, .name = "statx", .path = 1, .folder = 0},
      {.number = SYS_access, .name = "access", .path = 0},
      {.number = SYS_readlink, .name = "readlink", .path = 0},
      {.number = SYS_readlinkat, .name = "readlinkat", .path = 1, .folder = 0},
      {.number = SYS_read, .name = "read", .fd = 0},
      {.number = SYS_pread64, .name = "pread64", .fd = 0},
      {.number = SYS_readv, .name = "readv", .fd = 0},
      {.number = SYS_getdents64, .name = "getdents64", .fd = 0},
      {.number = SYS_fstat, .name = "fstat", .fd = 0},
      {.number = SYS_write, .name = "write", .fd = 0, .changes = true},
      {.number = SYS_pwrite64, .name = "pwrite64", .fd = 0, .changes = true},
      {.number = SYS_writev, .name = "writev", .fd = 0, .changes = true},
      {.number = SYS_ftruncate, .name = "ftruncate", .fd = 0, .changes = true},
      {.number = SYS_fallocate, .name = "fallocate", .fd = 0, .changes = true},
      {.number = SYS_fsync, .name = "fsync", .fd = 0, .changes = true},
      {.number = SYS_fdatasync, .name = "fdatasync", .fd = 0, .changes = true},
      {.number = SYS_flock, .name = "flock", .fd = 0, .changes = true},
      {.number = SYS_fchmod, .name = "fchmod", .fd = 0, .changes = true}};
  return kForms;
}

}  // namespace sheaf::crash
