// The loops of small_matrix.hpp for processors with AVX2 and FMA; see
// CMakeLists.txt for the compiler flags. Empty on other architectures.

#if defined(__AVX2__)
#include "sheaf/parallel/matrix/small_matrix_loops.hpp"
#else
#include "sheaf/parallel/matrix/small_matrix.hpp"
#endif

namespace sheaf::parallel {

const MatrixLoops* avx2_loops() noexcept {
#if defined(__AVX2__)
  static constexpr MatrixLoops kLoops = make_loops("avx2");
  return &kLoops;
#else
  return nullptr;
#endif
}

}  // namespace sheaf::parallel
