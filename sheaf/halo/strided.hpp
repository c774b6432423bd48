#pragma once
// Copies and additions between views of the same sizes.

#include "sheaf/base/dtype.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

// The memory of the two does not overlap.
void copy_view(const ConstView& from, const View& to,
               std::size_t element_bytes);

// to += from, element by element; f16 and bf16 by way of f32. UsageError for
// other types than floats.
void add_view(const ConstView& from, const View& to, DType dtype);

void zero_view(const View& to, std::size_t element_bytes);

}  // namespace sheaf::halo
