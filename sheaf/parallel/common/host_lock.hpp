#pragma once
// Page-locked (pinned) host memory, which a GPU can copy to and from directly.

#include <cstddef>

namespace sheaf::parallel::host_lock {

// Returns false if the memory cannot be locked, and in builds without CUDA.
// Copies are then still correct, only slower.
bool lock(void* data, std::size_t bytes);
// `data` must have been locked by lock().
void unlock(void* data);

}  // namespace sheaf::parallel::host_lock
