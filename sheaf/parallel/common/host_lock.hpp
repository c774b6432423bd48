#pragma once
// Memory of the host that is locked in place, so that a GPU copies to and from
// it by itself.

#include <cstddef>

namespace sheaf::parallel::host_lock {

// False where it cannot be, and without CUDA: copies are right without, only
// slower.
bool lock(void* data, std::size_t bytes);
// What lock() has returned true for.
void unlock(void* data);

}  // namespace sheaf::parallel::host_lock
