#pragma once
// The C library gives large blocks that are freed back to the system, and a
// training step that needs them again fetches them page by page.

namespace sheaf {

// From now on this process keeps what it frees, for its next step. What the
// user says by MALLOC_..., GLIBC_TUNABLES or another allocator stays.
void keep_freed_memory();

}  // namespace sheaf
