#include "sheaf/data/dataset.hpp"

#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

// Copies row by row on this thread alone: workers would otherwise fight over
// libtorch's own threads.
at::Tensor take_rows(const at::Tensor& from,
                     std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> shape = from.sizes().vec();
  shape[0] = static_cast<std::int64_t>(indices.size());
  at::Tensor rows = at::empty(shape, from.options());
  if (rows.numel() == 0) return rows;
  const std::size_t row_bytes = rows.nbytes() / indices.size();
  const auto* source = static_cast<const char*>(from.data_ptr());
  auto* target = static_cast<char*>(rows.data_ptr());
  for (const std::int64_t index : indices) {
    std::memcpy(target, source + static_cast<std::size_t>(index) * row_bytes,
                row_bytes);
    target += row_bytes;
  }
  return rows;
}

bool are_classes(const at::Tensor& target) {
  return target.dim() == 1 &&
         at::isIntegralType(target.scalar_type(), /*includeBool=*/false);
}

// The number of classes, after a check that all targets are among them.
std::int64_t checked_classes(const at::Tensor& target, std::int64_t classes) {
  if (!are_classes(target)) return 0;
  if (target.numel() == 0) return classes;
  const auto smallest = target.min().item<std::int64_t>();
  const auto largest = target.max().item<std::int64_t>();
  SHEAF_CHECK(smallest >= 0 && (classes == 0 || largest < classes),
              "targets go from ", smallest, " to ", largest,
              "; classes are counted from 0",
              classes ? concat(" to ", classes - 1) : std::string());
  return classes ? classes : largest + 1;
}

at::Tensor on_this_host(at::Tensor tensor) {
  return tensor.to(at::kCPU).contiguous();
}

}  // namespace

void Dataset::check_indices(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices)
    SHEAF_CHECK(index >= 0 && index < size(), "example ", index,
                " was asked for; the dataset has ", size(),
                " examples, counted from 0");
}

TensorDataset::TensorDataset(at::Tensor data, at::Tensor target,
                             std::int64_t classes,
                             std::vector<std::string> class_names)
    : names_(std::move(class_names)) {
  SHEAF_CHECK(data.defined() && target.defined() && data.dim() >= 1 &&
                  target.dim() >= 1 && data.size(0) == target.size(0),
              "a dataset needs as many targets as examples; data is ",
              data.sizes(), ", target is ", target.sizes());
  if (are_classes(target)) target = target.to(at::kLong);
  data_ = on_this_host(std::move(data));
  target_ = on_this_host(std::move(target));
  classes_ = checked_classes(target_, classes);
}

Batch TensorDataset::get(std::span<const std::int64_t> indices,
                         Random& /*random*/) const {
  check_indices(indices);
  return {take_rows(data_, indices), take_rows(target_, indices), 0,
          static_cast<std::int64_t>(indices.size())};
}

std::vector<std::int64_t> TensorDataset::example_shape() const {
  return data_.sizes().slice(1).vec();
}

}  // namespace sheaf::data
