#include "sheaf/parallel/data/sparse.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {

SparseAverage average_sparse_gradient(const comm::Group& group,
                                      const at::Tensor& gradient, bool is_used,
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

  struct Told {
    std::int64_t rows;
    std::int64_t is_dense;
    std::int64_t is_used;
  };
  const Told told{rows.size(1), has_one && !is_sparse, is_used};
  std::vector<Told> all(static_cast<std::size_t>(group.size()));
  comm::all_gather(
      group, comm::ConstBuffer(&told, sizeof told, DType::kU8),
      comm::Buffer(all.data(), all.size() * sizeof(Told), DType::kU8),
      {.name = "sparse rows"})
      .wait();
  SparseAverage result;
  std::vector<at::Tensor> all_rows;
  std::vector<at::Tensor> all_values;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    SHEAF_CHECK(!all[rank].is_dense,
                "the embedding has a dense gradient on rank ", rank,
                ", but was declared sparse; declare it dense, or do not "
                "assign a dense gradient to it");
    result.users += all[rank].is_used ? 1 : 0;
    value_sizes[0] = all[rank].rows;
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
