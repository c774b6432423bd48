#pragma once
// Whether f32 products on CUDA may be computed in tf32: a setting of the whole
// process in libtorch, here of single operators.

#include <torch/types.h>

#include <cstdint>

namespace sheaf::parallel {

// Sets it for products of matrices and for convolutions while it lives.
class Tf32Flags {
 public:
  explicit Tf32Flags(bool is_on);
  ~Tf32Flags();
  Tf32Flags(const Tf32Flags&) = delete;
  Tf32Flags& operator=(const Tf32Flags&) = delete;

 private:
  bool had_matrices_;
  bool had_convolutions_;
};

// The same in backward(), in the nodes that made `output`, whose sequence
// numbers are `first_node` and above.
void use_tf32_in_backward(const at::Tensor& output, std::uint64_t first_node,
                          bool is_on);

}  // namespace sheaf::parallel
