// The reduction loops for processors with AVX-512; see CMakeLists.txt for the
// compiler flags. Empty on other architectures.

#include "sheaf/comm/kernels/reduce_loops_table.hpp"
#if defined(__AVX512F__)
#include "sheaf/comm/kernels/reduce_loops_functions.hpp"
#endif

namespace sheaf::comm {

const ReduceTable* avx512_table() noexcept {
#if defined(__AVX512F__)
  static constexpr ReduceTable kTable = make_table("avx512");
  return &kTable;
#else
  return nullptr;
#endif
}

}  // namespace sheaf::comm
