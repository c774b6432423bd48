#include "sheaf/parallel/common/trained_parameter.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

struct Claims {
  std::mutex mutex;
  std::unordered_map<const at::TensorImpl*, int> owners;  // number of claims
  std::atomic<std::int64_t> changes{0};
};

// Never destroyed, because wrappers may be static objects.
Claims& claims() {
  static auto& all = *new Claims;
  return all;
}

}  // namespace

void ParameterClaim::set(const std::vector<TrainedParameter>& parameters) {
  Claims& all = claims();
  const std::lock_guard lock(all.mutex);
  for (const TrainedParameter& one : parameters)
    ++all.owners[one.tensor.unsafeGetTensorImpl()];
  for (const TrainedParameter& one : parameters_) {
    const auto found = all.owners.find(one.tensor.unsafeGetTensorImpl());
    if (--found->second == 0) all.owners.erase(found);
  }
  parameters_ = parameters;
  ++all.changes;
}

void ParameterClaim::check() {
  Claims& all = claims();
  if (checked_ == all.changes) return;
  const std::lock_guard lock(all.mutex);
  for (const TrainedParameter& one : parameters_)
    SHEAF_CHECK(all.owners[one.tensor.unsafeGetTensorImpl()] == 1, "parameter ",
                one.name,
                " is trained by another DataParallel or DadParallel as well, "
                "and both would average its gradient; wrap one module that "
                "contains both networks, or destroy the other wrapper first");
  checked_ = all.changes;
}

}  // namespace sheaf::parallel
