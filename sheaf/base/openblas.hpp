#pragma once
// OpenBLAS selects its kernels from a list of known processors. A processor
// newer than the list gets kernels of 2004, which are several times slower.

#include <string>

namespace sheaf {

// Value of OPENBLAS_CORETYPE that selects suitable kernels for this processor.
// Empty where OpenBLAS needs no help: non-Intel or old processors.
std::string openblas_core();

// Sets OPENBLAS_CORETYPE for child processes, unless it is already set.
void choose_openblas_kernels();

// A warning for the user if the OpenBLAS of this process uses kernels that are
// far slower than the processor allows; empty otherwise.
std::string slow_openblas();

}  // namespace sheaf
