#pragma once
// What devices can compute in.

#include <c10/core/Device.h>

#include <string>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::parallel {

// Why layers on the device cannot be computed in the precision, and what they
// can be; empty where they can.
std::string why_not(plan::Precision precision, const c10::Device& device);

// oneDNN before version 3 crashes in bf16 where processors have tiles for
// matrices (AMX): then it is told, by DNNL_MAX_CPU_ISA, to do without, unless
// the variable is set. It must not have computed anything yet.
void avoid_broken_kernels();

}  // namespace sheaf::parallel
