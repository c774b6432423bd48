#pragma once
// Identifies what determines the bits of a matrix product on this rank besides
// its factors: the processor, the builds of libtorch and the BLAS library, the
// instruction set, the number of threads, and related environment variables. If
// two ranks have the same identity, libtorch gives the same bits on both;
// otherwise the bits may differ.

#include <cstdint>
#include <string>

namespace sheaf::parallel {

// The current description for the calling thread. `device`: index of a GPU, or
// -1 for the CPU.
std::string describe_products(int device);
// A 64-bit hash of that text.
std::int64_t product_identity(int device);

}  // namespace sheaf::parallel
