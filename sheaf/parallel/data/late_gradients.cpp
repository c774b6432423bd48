#include "sheaf/parallel/data/late_gradients.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

void LateGradients::take(std::size_t parameter) {
  const auto& [name, tensor, is_sparse] = parameters_[parameter];
  SHEAF_CHECK(!is_sparse, "parameter ", name,
              " got two sparse gradients in one backward(), one of them from a "
              "nested backward(); make the gradients of its layer dense");
  const at::NoGradGuard no_grad;
  const at::Tensor& gradient = tensor.grad();
  at::Tensor& late = late_[parameter];
  if (late.defined())
    late.add_(gradient);
  else
    late = gradient.is_sparse() ? gradient.to_dense()
                                : gradient.clone(at::MemoryFormat::Contiguous);
}

std::int64_t LateGradients::add_average(std::size_t parameter,
                                        const comm::Group& group, int divisor,
                                        const std::string& name) {
  const at::NoGradGuard no_grad;
  const at::Tensor& tensor = parameters_[parameter].tensor;
  const at::Tensor late =
      has(parameter)
          ? late_[parameter].to(at::kCPU)
          : at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
  tensor::all_reduce(group, late, {.op = comm::ReduceOp::kSum, .name = name})
      .wait();
  tensor.mutable_grad().add_(late.div_(divisor).to(tensor.device()));
  return static_cast<std::int64_t>(late.nbytes());
}

void LateGradients::clear() {
  for (at::Tensor& late : late_) late.reset();
}

}  // namespace sheaf::parallel
