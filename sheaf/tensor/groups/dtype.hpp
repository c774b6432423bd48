#pragma once
// Conversion between the element types of tensors and of buffers.

#include <torch/types.h>

#include "sheaf/base/dtype.hpp"

namespace sheaf::tensor {

// Throws UsageError for types that groups cannot exchange: complex, quantized.
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

}  // namespace sheaf::tensor
