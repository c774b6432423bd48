#pragma once
// Copies and additions between views of the same size. Throw UsageError if the
// sizes differ.

#include "sheaf/base/dtype.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

// The two views must not overlap in memory.
void copy_view(const ConstView& from, const View& to,
               std::size_t element_bytes);

// to += from, element by element; f16 and bf16 are added in f32. Throws
// UsageError for types that are not floating-point.
void add_view(const ConstView& from, const View& to, DType dtype);

void zero_view(const View& to, std::size_t element_bytes);

}  // namespace sheaf::halo
