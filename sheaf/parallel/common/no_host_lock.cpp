// Without CUDA, no memory needs to be locked.
#include "sheaf/parallel/common/staging.hpp"

namespace sheaf::parallel::host_lock {

bool lock(void*, std::size_t) { return false; }
void unlock(void*) {}

}  // namespace sheaf::parallel::host_lock
