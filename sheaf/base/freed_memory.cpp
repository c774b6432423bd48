#include "sheaf/base/freed_memory.hpp"

#include <malloc.h>

#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace sheaf {

void keep_freed_memory() {
  for (const char* name :
       {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"})
    if (std::getenv(name)) return;
  constexpr int kNever = std::numeric_limits<int>::max();
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
}

}  // namespace sheaf
