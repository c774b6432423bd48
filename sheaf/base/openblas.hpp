#pragma once
// OpenBLAS chooses its kernels by a list of processors; one that is newer than
// the list gets those of 2004, several times slower.

#include <string>

namespace sheaf {

// The name, for OPENBLAS_CORETYPE, of kernels that suit this processor; empty
// where OpenBLAS needs no help: other makers' processors, or old ones.
std::string openblas_core();

// Sets OPENBLAS_CORETYPE for programs that this one starts, unless it is set.
void choose_openblas_kernels();

// What to tell the user when this process has an OpenBLAS with kernels far
// below what the processor can; empty otherwise.
std::string slow_openblas();

}  // namespace sheaf
