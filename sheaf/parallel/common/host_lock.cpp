#include <cuda_runtime_api.h>

#include "sheaf/parallel/common/staging.hpp"

namespace sheaf::parallel::host_lock {

bool lock(void* data, std::size_t bytes) {
  const bool is_done =
      cudaHostRegister(data, bytes, cudaHostRegisterPortable) == cudaSuccess;
  // Clears the error, which the next call would report otherwise.
  if (!is_done) cudaGetLastError();
  return is_done;
}

void unlock(void* data) {
  if (cudaHostUnregister(data) != cudaSuccess) cudaGetLastError();
}

}  // namespace sheaf::parallel::host_lock
