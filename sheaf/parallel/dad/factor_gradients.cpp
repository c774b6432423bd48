#include "sheaf/parallel/dad/factor_gradients.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"

namespace sheaf::parallel {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Gives the same bits on all ranks. Uses libtorch's product if it rounds
// equally on all ranks.
at::Tensor product_of(const at::Tensor& a, const at::Tensor& b,
                      bool needs_portable) {
  return needs_portable ? portable_product(a.cpu(), b.cpu()) : a.mm(b);
}

at::Tensor sum_of_rows(const at::Tensor& rows, bool needs_portable) {
  if (!needs_portable) return rows.sum(0);
  const at::Tensor given = rows.cpu();
  return portable_product(at::ones({1, given.size(0)}, given.options()), given)
      .squeeze(0)
      .to(rows.device());
}

// The remaining rows, in their original order.
std::vector<at::Tensor> rows_without(const at::Tensor& rows,
                                     const at::Tensor& voids) {
  std::vector<at::Tensor> left;
  std::int64_t from = 0;
  const auto keep_to = [&](std::int64_t end) {
    if (end > from) left.push_back(rows.narrow(0, from, end - from));
  };
  for (std::int64_t i = 0; i < voids.size(0); ++i) {
    const auto begin = voids[i][0].item<std::int64_t>();
    keep_to(begin);
    from = begin + voids[i][1].item<std::int64_t>();
  }
  keep_to(rows.size(0));
  return left;
}

}  // namespace

FactorGradients::FactorGradients(
    const std::vector<TrainedParameter>& parameters, int ranks)
    : parameters_(parameters),
      ranks_(ranks),
      got_(parameters.size()),
      buffers_(parameters.size()),
      is_made_(parameters.size()) {}

FactorGradients::Got* FactorGradients::find(int rank, const BlockKey& block) {
  for (Got& got : got_[static_cast<std::size_t>(block.weight)])
    if (got.rank == rank && got.block == block) return &got;
  return nullptr;
}

void FactorGradients::take(int rank, FactorPart part, bool is_backward) {
  Got* got = find(rank, part.block);
  if (!got) {
    auto& list = got_[static_cast<std::size_t>(part.block.weight)];
    list.push_back({rank, part.block, {}, {}, {}, {}});
    got = &list.back();
  }
  if (part.source.above.weight >= 0) got->source = part.source;
  if (part.voids.defined() && !got->inputs.empty())
    got->inputs = rows_without(stacked(got->inputs), part.voids);
  if (part.factors.inputs.defined()) got->inputs.push_back(part.factors.inputs);
  if (part.factors.deltas.defined()) got->deltas.push_back(part.factors.deltas);
  if (part.bias_sum.defined()) got->bias_sum = part.bias_sum;
  got->needs_portable |= part.needs_portable;
  got->has_backward |= is_backward;
}

// Ranks appear in the same order as in the layer above.
void FactorGradients::derive_deltas(std::size_t weight) {
  for (Got& got : got_[weight]) derive_delta(got);
}

// The delta may depend on another part of the same weight, which is then
// derived first.
void FactorGradients::derive_delta(Got& got) {
  if (got.source.above.weight < 0 || !got.deltas.empty()) return;
  Got* const above = find(got.rank, got.source.above);
  const auto from = static_cast<std::size_t>(got.source.above.weight);
  if (above) derive_delta(*above);
  if (!above || above->deltas.empty()) {
    // A rank without rows has none in the layer above either.
    SHEAF_ASSERT(got.inputs.empty(), "no deltas of ", parameters_[from].name);
    return;
  }
  const at::Tensor part =
      part_of(parameters_[from].tensor.detach(), above->block.view)
          .to(at::kCPU);
  got.needs_portable |= above->needs_portable;
  got.deltas = {times_derivative(
      product_of(stacked(above->deltas), part, got.needs_portable),
      got.source.activation, stacked(above->inputs))};
}

// Rows of all ranks for the same part of the weight are multiplied in one
// product, in rank order, which gives the same bits on all ranks.
std::vector<FactorGradients::Got> FactorGradients::merged(std::size_t weight) {
  auto& list = got_[weight];
  std::stable_sort(list.begin(), list.end(),
                   [](const Got& a, const Got& b) { return a.rank < b.rank; });
  std::vector<Got> all;
  for (const Got& got : list) {
    if (got.deltas.empty() && !got.bias_sum.defined()) continue;
    const auto found =
        std::find_if(all.begin(), all.end(),
                     [&](const Got& one) { return one.block == got.block; });
    if (found == all.end()) {
      all.push_back(got);
      continue;
    }
    append(found->inputs, got.inputs);
    append(found->deltas, got.deltas);
    found->needs_portable |= got.needs_portable;
    if (got.bias_sum.defined())
      found->bias_sum = found->bias_sum.defined()
                            ? found->bias_sum + got.bias_sum
                            : got.bias_sum;
  }
  return all;
}

std::int64_t FactorGradients::make(std::size_t weight) {
  derive_deltas(weight);
  std::int64_t rows = 0;
  for (const Got& all : merged(weight)) {
    for (const at::Tensor& deltas : all.deltas) rows += deltas.size(0);
    if (!all.deltas.empty() || all.bias_sum.defined()) add_product(weight, all);
  }
  // A rank without rows, or with factors of zeros only, has a gradient of
  // zeros.
  for (const Got& got : got_[weight])
    if (got.has_backward && got.inputs.empty() && got.deltas.empty())
      add_zeros(weight, got);
  return rows;
}

std::int64_t FactorGradients::derived_rows(std::size_t weight, int rank) const {
  std::int64_t rows = 0;
  for (const Got& got : got_[weight])
    if (got.rank == rank && got.source.above.weight >= 0)
      for (const at::Tensor& deltas : got.deltas) rows += deltas.size(0);
  return rows;
}

void FactorGradients::add_zeros(std::size_t weight, const Got& got) {
  if (!is_made_[weight]) buffer_for(weight).zero_();
  is_made_[weight] = true;
  if (got.block.bias < 0) return;
  const auto bias = static_cast<std::size_t>(got.block.bias);
  if (!is_made_[bias])
    buffers_[bias] = at::zeros_like(parameters_[bias].tensor);
  is_made_[bias] = true;
}

void FactorGradients::add_product(std::size_t weight, const Got& all) {
  const at::Tensor& parameter = parameters_[weight].tensor;
  at::Tensor deltas;
  if (!all.deltas.empty())
    deltas = (stacked(all.deltas) / ranks_).to(parameter.device());
  if (all.block.bias >= 0) add_bias(all, deltas);
  if (!deltas.defined()) return;
  const at::Tensor inputs = stacked(all.inputs);
  SHEAF_ASSERT(inputs.size(0) == deltas.size(0), parameters_[weight].name,
               " has ", inputs.size(0), " rows of inputs and ", deltas.size(0),
               " of deltas");
  const WeightView& view = all.block.view;
  const bool is_whole = view.in * view.out == parameter.numel();
  at::Tensor& buffer = buffer_for(weight);
  if (!is_made_[weight] && (view.is_lookup || !is_whole)) buffer.zero_();
  const bool adds = is_made_[weight] || !is_whole;
  is_made_[weight] = true;
  if (view.is_lookup) return look_up(weight, view, inputs, deltas);
  const at::Tensor factor = inputs.to(parameter.device());
  at::Tensor part = part_of(buffer, view);
  if (all.needs_portable) {
    const at::Tensor product = portable_product(deltas.cpu().t(), inputs.cpu());
    adds ? part.add_(product.to(part.device())) : part.copy_(product);
  } else if (adds && part.is_cuda()) {
    // In libtorch 2.11, addmm_() fails on a column of a transposed matrix.
    part.add_(at::mm(deltas.t(), factor));
  } else if (adds) {
    part.addmm_(deltas.t(), factor);
  } else {
    at::mm_out(part, deltas.t(), factor);
  }
}

// Adds in row order, on a GPU too.
void FactorGradients::look_up(std::size_t weight, const WeightView& view,
                              const at::Tensor& inputs,
                              const at::Tensor& deltas) {
  const at::Tensor rows = inputs.to(deltas.device()).squeeze(1);
  const at::Tensor real = (rows >= 0).nonzero().squeeze(1);
  const at::Tensor table = part_of(buffers_[weight], view).t();
  const at::Tensor indices = rows.index_select(0, real);
  const at::Tensor given = deltas.index_select(0, real);
  // On the CPU with several threads, index_put_() adds in an unspecified order.
  if (table.device().is_cpu())
    add_rows_in_order(table, indices, given);
  else
    table.index_put_({indices}, given, /*accumulate=*/true);
}

void FactorGradients::add_bias(const Got& all, const at::Tensor& deltas) {
  const auto bias = static_cast<std::size_t>(all.block.bias);
  const at::Tensor value =
      all.bias_sum.defined()
          ? (all.bias_sum / ranks_).to(parameters_[bias].tensor.device())
          : sum_of_rows(deltas, all.needs_portable);
  buffers_[bias] = is_made_[bias] ? buffers_[bias] + value : value.clone();
  is_made_[bias] = true;
}

// Reuses the old buffer unless there are other references to it.
at::Tensor& FactorGradients::buffer_for(std::size_t weight) {
  at::Tensor& buffer = buffers_[weight];
  if (!buffer.defined() || buffer.use_count() > 1 ||
      buffer.storage().use_count() > 1)
    buffer = at::empty_like(parameters_[weight].tensor);
  return buffer;
}

void FactorGradients::clear() {
  for (auto& list : got_) list.clear();
  std::fill(is_made_.begin(), is_made_.end(), false);
}

}  // namespace sheaf::parallel
