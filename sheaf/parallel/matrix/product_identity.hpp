#pragma once
// What determines the bits of a matrix product on this rank, beside its
// factors: the processor, libtorch's and the BLAS library's build, instruction
// set and number of threads, and settings of the environment for them. Where
// two ranks have the same, libtorch gives them the same bits; where not, it may
// not.

#include <cstdint>
#include <string>

namespace sheaf::parallel {

// As the calling thread would compute it, now. `device`: of a GPU, or -1.
std::string describe_products(int device);
// 64 bits of that text.
std::int64_t product_identity(int device);

}  // namespace sheaf::parallel
