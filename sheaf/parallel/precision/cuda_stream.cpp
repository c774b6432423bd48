#include <c10/cuda/CUDAStream.h>

#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::cast_kernels {

Stream current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device))
      .stream();
}

}  // namespace sheaf::parallel::cast_kernels
