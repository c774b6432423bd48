#include "sheaf/parallel/sparse.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/collectives.hpp"

namespace sheaf::parallel {

SparseAverage average_sparse_gradient(const comm::Group& group,
                                      const at::Tensor& gradient,
                                      const at::Tensor& parameter,
                                      int divisor) {
  const bool has_one = gradient.defined();
  SHEAF_CHECK(!has_one || gradient.is_sparse(),
              "a dense gradient came for an embedding that was declared "
              "sparse; declare it dense");
  const at::Tensor mine = has_one ? gradient.coalesce() : at::Tensor();
  const at::Tensor rows = has_one
                              ? mine.indices().to(at::kCPU)
                              : at::empty({1, 0}, at::TensorOptions(at::kLong));
  auto value_sizes = parameter.sizes().vec();
  value_sizes[0] = rows.size(1);
  const at::Tensor values = has_one
                                ? mine.values().contiguous()
                                : at::empty(value_sizes, parameter.options());

  const std::vector<std::int64_t> told{has_one ? rows.size(1) : -1};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()));
  comm::all_gather(group, told, counts, {.name = "sparse rows"}).wait();
  SparseAverage result;
  std::vector<at::Tensor> all_rows;
  std::vector<at::Tensor> all_values;
  for (const std::int64_t count : counts) {
    result.ranks += count >= 0 ? 1 : 0;
    value_sizes[0] = std::max<std::int64_t>(count, 0);
    all_rows.push_back(at::empty({1, value_sizes[0]}, rows.options()));
    all_values.push_back(at::empty(value_sizes, values.options()));
  }
  tensor::all_gather(group, rows, all_rows).wait();
  tensor::all_gather(group, values, all_values).wait();
  result.bytes = static_cast<std::int64_t>(rows.nbytes() + values.nbytes());
  const at::Tensor indices = at::cat(all_rows, 1).to(parameter.device());
  result.gradient = at::sparse_coo_tensor(
                        indices, at::cat(all_values).div_(divisor),
                        parameter.sizes(), values.options().layout(at::kSparse))
                        .coalesce();
  return result;
}

}  // namespace sheaf::parallel
