#pragma once
// Helpers shared by the implementations of transforms.

#include <string_view>
#include <vector>

#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

// Throws UsageError unless `images` has four dimensions and one row per index.
void check_images(std::string_view transform, const at::Tensor& images,
                  std::span<const std::int64_t> indices);

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};
// Throws UsageError if the height or the width is below 1.
ImageSize checked_size(std::string_view transform, ImageSize size);

// The images, with the rows `which` of the batch mirrored left to right.
at::Tensor with_turned_rows(const at::Tensor& images,
                            const std::vector<std::int64_t>& which);

}  // namespace sheaf::data
