#include "sheaf/parallel/common/host_lock.hpp"

#include <cuda_runtime_api.h>

namespace sheaf::parallel::host_lock {

bool lock(void* data, std::size_t bytes) {
  const bool is_done =
      cudaHostRegister(data, bytes, cudaHostRegisterPortable) == cudaSuccess;
  if (!is_done) cudaGetLastError();  // else the next call would tell it
  return is_done;
}

void unlock(void* data) {
  if (cudaHostUnregister(data) != cudaSuccess) cudaGetLastError();
}

}  // namespace sheaf::parallel::host_lock
