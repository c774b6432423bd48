#pragma once
// Element types of tensors and of buffers.

#include <torch/types.h>

#include "sheaf/base/dtype.hpp"

namespace sheaf::tensor {

// UsageError for types that cannot be exchanged: complex, quantised.
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

}  // namespace sheaf::tensor
