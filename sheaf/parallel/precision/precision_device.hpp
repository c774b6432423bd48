#pragma once
// The precisions that devices support, and settings of libtorch for them.

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <string>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::parallel {

// The reason why the device cannot compute layers in the precision, and the
// alternatives; empty if it can.
std::string why_not(plan::Precision precision, const c10::Device& device);

// oneDNN before version 3 crashes in bf16 on processors with AMX. This disables
// AMX for oneDNN with DNNL_MAX_CPU_ISA, unless the variable is already set.
// Must be called before oneDNN computes anything.
void avoid_broken_kernels();

// Whether f32 products on CUDA may use tf32 is a process-wide setting in
// libtorch; the following set it for single operators.

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
