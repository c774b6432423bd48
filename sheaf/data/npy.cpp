#include "sheaf/data/npy.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/numpy.hpp"

namespace sheaf::data {

std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target) {
  const at::Tensor examples = tensor::load_npy(data);
  const at::Tensor targets = tensor::load_npy(target);
  if (examples.dim() == 0 || targets.dim() == 0 ||
      examples.size(0) != targets.size(0))
    throw IoError(concat(data, " is ", examples.sizes(), " and ", target,
                         " is ", targets.sizes(),
                         "; they need the same number of rows"));
  return std::make_shared<TensorDataset>(examples, targets);
}

}  // namespace sheaf::data
