#pragma once
// The precisions that devices support.

#include <c10/core/Device.h>

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

}  // namespace sheaf::parallel
