#include "sheaf/data/dataset/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

// Copies rows on this thread only: otherwise loader workers would compete for
// libtorch's threads.
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
              "targets range from ", smallest, " to ", largest,
              "; classes are numbered from 0",
              classes ? concat(" to ", classes - 1) : std::string());
  return classes ? classes : largest + 1;
}

// The tensor on the CPU, with contiguous rows.
at::Tensor on_this_host(at::Tensor tensor) {
  tensor = tensor.to(at::kCPU);
  const bool is_dense =
      tensor.size(0) == 0 || tensor.select(0, 0).is_contiguous();
  return is_dense ? tensor : tensor.contiguous();
}

std::int64_t check_parts(const std::vector<at::Tensor>& parts) {
  SHEAF_CHECK(!parts.empty(), "a dataset needs at least one data tensor");
  std::int64_t rows = 0;
  for (const at::Tensor& part : parts) {
    SHEAF_CHECK(part.defined() && part.dim() >= 1 &&
                    part.scalar_type() == parts[0].scalar_type() &&
                    part.sizes().slice(1) == parts[0].sizes().slice(1),
                "the parts of a dataset must have rows of the same shape and "
                "type");
    rows += part.size(0);
  }
  return rows;
}

}  // namespace

void Dataset::check_indices(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices)
    SHEAF_CHECK(index >= 0 && index < size(), "example ", index,
                " is out of range; the dataset has ", size(),
                " examples, numbered from 0");
}

Batch Dataset::get_boxes(std::span<const std::int64_t> indices,
                         const Boxes& boxes, Random& random) const {
  Batch batch = get(indices, random);
  batch.bytes_read = static_cast<std::int64_t>(batch.data.nbytes());
  std::vector<std::int64_t> own(indices.size());
  for (std::size_t i = 0; i < own.size(); ++i)
    own[i] = static_cast<std::int64_t>(i);
  // Indexed by position: the rows are already in the order of `indices`.
  const TensorDataset rows(batch.data, at::zeros({batch.size()}));
  batch.data = rows.get_boxes(own, boxes, random).data;
  return batch;
}

std::string Dataset::reads_whole_for() const {
  return "the dataset provides whole images only";
}

TensorDataset::TensorDataset(at::Tensor data, at::Tensor target,
                             std::int64_t classes,
                             std::vector<std::string> class_names)
    : TensorDataset(std::vector<at::Tensor>{std::move(data)}, std::move(target),
                    classes, std::move(class_names)) {}

TensorDataset::TensorDataset(std::vector<at::Tensor> parts, at::Tensor target,
                             std::int64_t classes,
                             std::vector<std::string> class_names)
    : names_(std::move(class_names)) {
  const std::int64_t rows = check_parts(parts);
  SHEAF_CHECK(target.defined() && target.dim() >= 1 && target.size(0) == rows,
              "a dataset needs as many targets as examples; data is ",
              parts[0].sizes(), parts.size() > 1 ? ", ..." : "", ", target is ",
              target.defined() ? target.sizes() : at::IntArrayRef());
  if (are_classes(target)) target = target.to(at::kLong);
  for (at::Tensor& part : parts) {
    parts_.push_back(on_this_host(std::move(part)));
    const std::int64_t before = ends_.empty() ? 0 : ends_.back();
    ends_.push_back(before + parts_.back().size(0));
  }
  target_ = target.to(at::kCPU).contiguous();
  classes_ = checked_classes(target_, classes);
}

void TensorDataset::set_check(std::function<void()> check) {
  check_ = std::move(check);
  check_data();
}

void TensorDataset::check_data() const {
  if (check_) check_();
}

at::Tensor TensorDataset::data() const {
  at::Tensor all = parts_.size() == 1 ? parts_[0] : at::cat(parts_);
  check_data();
  return all;
}

const char* TensorDataset::example(std::int64_t index) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const at::Tensor& part =
      parts_[static_cast<std::size_t>(end - ends_.begin())];
  const std::int64_t row = index - (*end - part.size(0));
  return static_cast<const char*>(part.data_ptr()) +
         row * part.stride(0) * static_cast<std::int64_t>(part.element_size());
}

at::Tensor TensorDataset::make_rows(std::size_t count,
                                    const Sizes& shape) const {
  Sizes sizes = shape;
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(count));
  return at::empty(sizes, parts_[0].options());
}

Batch TensorDataset::get(std::span<const std::int64_t> indices,
                         Random& /*random*/) const {
  check_indices(indices);
  at::Tensor rows = make_rows(indices.size(), example_shape());
  auto* to = static_cast<char*>(rows.data_ptr());
  const std::size_t bytes =
      indices.empty() ? 0 : rows.nbytes() / indices.size();
  for (const std::int64_t index : indices) {
    if (bytes > 0) std::memcpy(to, example(index), bytes);
    to += bytes;
  }
  check_data();
  return {rows, take_rows(target_, indices), 0,
          static_cast<std::int64_t>(indices.size())};
}

Batch TensorDataset::get_boxes(std::span<const std::int64_t> indices,
                               const Boxes& boxes, Random& /*random*/) const {
  check_indices(indices);
  const BoxWalk walk(example_shape(), boxes.size);
  at::Tensor rows = make_rows(indices.size(), walk.box_shape());
  Batch batch{rows, take_rows(target_, indices), 0,
              static_cast<std::int64_t>(indices.size())};
  if (rows.numel() == 0) return batch;
  auto* to = static_cast<char*>(rows.data_ptr());
  const auto width = static_cast<std::int64_t>(rows.element_size());
  std::memset(to, 0, rows.nbytes());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const char* from = example(indices[i]);
    walk.for_each_run(boxes.begin[i], [&](auto first, auto own, auto count) {
      std::memcpy(to + own * width, from + first * width,
                  static_cast<std::size_t>(count * width));
      batch.bytes_read += count * width;
    });
    to += walk.box_elements() * width;
  }
  check_data();
  return batch;
}

std::vector<std::int64_t> TensorDataset::example_shape() const {
  return parts_[0].sizes().slice(1).vec();
}

}  // namespace sheaf::data
