// The loops of small_matrix.hpp for processors with AVX-512; see CMakeLists.txt
// for the compiler flags. Empty on other architectures.

#if defined(__AVX512F__)
#include "sheaf/parallel/matrix/small_matrix_loops.hpp"
#else
#include "sheaf/parallel/matrix/small_matrix.hpp"
#endif

namespace sheaf::parallel {

const MatrixLoops* avx512_loops() noexcept {
#if defined(__AVX512F__)
  static constexpr MatrixLoops kLoops = make_loops("avx512");
  return &kLoops;
#else
  return nullptr;
#endif
}

}  // namespace sheaf::parallel
