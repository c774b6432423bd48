#pragma once
// File descriptors that child processes must not keep. O_CLOEXEC closes them in
// children that start another program; a child that only forks would hold them
// as long as it lives, and with them connections and locks of its parent.

namespace sheaf {

// From now on, forked child processes close `fd`. Thread-safe.
void close_in_children(int fd);
// Must be called before `fd` is closed or passed on.
void keep_in_children(int fd) noexcept;

}  // namespace sheaf
