#pragma once
// What the transforms' files share.

#include <string_view>
#include <vector>

#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

// UsageError unless there are four dimensions, and as many rows as indices.
void check_images(std::string_view transform, const at::Tensor& images,
                  std::span<const std::int64_t> indices);

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};
// UsageError for one below 1.
ImageSize checked_size(std::string_view transform, ImageSize size);

// The images, some of them from right to left.
at::Tensor with_turned_rows(const at::Tensor& images,
                            const std::vector<std::int64_t>& which);

}  // namespace sheaf::data
