#include "sheaf/parallel/sparse.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/collectives.hpp"

namespace sheaf::parallel {

SparseAverage average_sparse_gradient(const comm::Group& group,
                                      const at::Tensor& gradient,
                                      const at::Tensor& parameter,
                                      int divisor) {
  const bool has_one = gradient.defined();
  const bool is_sparse = has_one && gradient.is_sparse();
  const at::Tensor mine = is_sparse ? gradient.coalesce() : at::Tensor();
  const at::Tensor rows = is_sparse
                              ? mine.indices().to(at::kCPU)
                              : at::empty({1, 0}, at::TensorOptions(at::kLong));
  auto value_sizes = parameter.sizes().vec();
  value_sizes[0] = rows.size(1);
  const at::Tensor values = is_sparse
                                ? mine.values().contiguous()
                                : at::empty(value_sizes, parameter.options());

  constexpr std::int64_t kNone = -1, kDense = -2;
  const std::vector<std::int64_t> told{is_sparse ? rows.size(1)
                                       : has_one ? kDense
                                                 : kNone};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()));
  comm::all_gather(group, told, counts, {.name = "sparse rows"}).wait();
  const auto dense = std::find(counts.begin(), counts.end(), kDense);
  SHEAF_CHECK(dense == counts.end(),
              "the embedding has a dense gradient on "
              "rank ",
              dense - counts.begin(),
              ", and was declared sparse; declare it dense, or give it no "
              "gradient of your own");
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
