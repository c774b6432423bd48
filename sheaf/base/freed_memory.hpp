#pragma once
// The C library returns large freed blocks to the system. A training step that
// needs them again then takes a page fault for every page.

namespace sheaf {

// Makes this process keep freed memory for reuse from now on. Has no effect if
// the user set MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ or
// GLIBC_TUNABLES, or uses another allocator.
void keep_freed_memory();

}  // namespace sheaf
