#include "sheaf/parallel/parameter_claim.hpp"

#include <mutex>
#include <unordered_map>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

struct Claims {
  std::mutex mutex;
  std::unordered_map<const at::TensorImpl*, const ParameterClaim*> owners;
};

// Never destroyed: wrappers may be static.
Claims& claims() {
  static auto& all = *new Claims;
  return all;
}

}  // namespace

void ParameterClaim::set(const std::vector<ReducedParameter>& parameters) {
  auto& [mutex, owners] = claims();
  const std::lock_guard lock(mutex);
  for (const auto& [name, tensor, is_sparse] : parameters) {
    const auto found = owners.find(tensor.unsafeGetTensorImpl());
    SHEAF_CHECK(found == owners.end() || found->second == this, "parameter ",
                name,
                " is already trained by another DataParallel or DadParallel, "
                "and both would average its gradient; wrap one module that "
                "contains both networks, or destroy the other wrapper first");
  }
  for (const at::Tensor& one : parameters_)
    owners.erase(one.unsafeGetTensorImpl());
  parameters_.clear();
  for (const auto& [name, tensor, is_sparse] : parameters) {
    owners[tensor.unsafeGetTensorImpl()] = this;
    parameters_.push_back(tensor);
  }
}

}  // namespace sheaf::parallel
