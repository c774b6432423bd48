// The reduction loops for processors with AVX2 and F16C; see CMakeLists.txt for
// the compiler flags. Empty on other architectures.

#include "sheaf/comm/kernels/reduce_loops_table.hpp"
#if defined(__AVX2__)
#include "sheaf/comm/kernels/reduce_loops_functions.hpp"
#endif

namespace sheaf::comm {

const ReduceTable* avx2_table() noexcept {
#if defined(__AVX2__)
  static constexpr ReduceTable kTable = make_table("avx2");
  return &kTable;
#else
  return nullptr;
#endif
}

}  // namespace sheaf::comm
