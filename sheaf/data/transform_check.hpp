#pragma once
// What the transforms' files share.

#include <string_view>

#include "sheaf/data/transform.hpp"

namespace sheaf::data {

// UsageError unless there are four dimensions, and as many rows as indices.
void check_images(std::string_view transform, const at::Tensor& images,
                  std::span<const std::int64_t> indices);

}  // namespace sheaf::data
