#pragma once
// File descriptors that child processes must not keep. O_CLOEXEC closes them in
// children that start another program; a child that only forks would hold them
// as long as it lives, and with them connections and locks of its parent.

namespace sheaf {

// From now on, `fd` is /dev/null in forked child processes: its number must not
// be used for another file there, which the child's copy of the owner would
// close. Thread-safe.
void close_in_children(int fd);
// Must be called before `fd` is closed or passed on.
void keep_in_children(int fd) noexcept;

}  // namespace sheaf
