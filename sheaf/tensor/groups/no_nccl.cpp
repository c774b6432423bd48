#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/nccl.hpp"

namespace sheaf::tensor::nccl {

void check_available() {
  throw UsageError(
      "backend nccl is not in this build: libtorch has no CUDA, or nccl.h was "
      "not found; choose gloo or mpi, which exchange CUDA tensors through "
      "host memory");
}

void enable(const comm::Group&, bool) {}
bool is_enabled(const comm::Group&) { return false; }

bool broadcast(const comm::Group&, const at::Tensor&,
               const comm::CollectiveOptions&) {
  return false;
}
bool reduce(const comm::Group&, const at::Tensor&,
            const comm::CollectiveOptions&) {
  return false;
}
bool all_reduce(const comm::Group&, const at::Tensor&,
                const comm::CollectiveOptions&) {
  return false;
}
bool all_gather(const comm::Group&, const at::Tensor&, const at::Tensor&,
                const comm::CollectiveOptions&) {
  return false;
}
bool reduce_scatter(const comm::Group&, const at::Tensor&, const at::Tensor&,
                    const comm::CollectiveOptions&) {
  return false;
}

}  // namespace sheaf::tensor::nccl
