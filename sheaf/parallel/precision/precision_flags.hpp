#pragma once
// Whether f32 products on CUDA may use tf32. In libtorch this is a process-wide
// setting; here it is set for single operators.

#include <torch/types.h>

#include <cstdint>

namespace sheaf::parallel {

// Sets the flag for matrix products and convolutions while this object exists.
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

// Sets the flag during backward() in the nodes that produced `output`, from the
// sequence number `first_node` on.
void use_tf32_in_backward(const at::Tensor& output, std::uint64_t first_node,
                          bool is_on);

}  // namespace sheaf::parallel
