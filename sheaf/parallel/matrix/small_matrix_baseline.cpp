// The loops of small_matrix.hpp for any processor.

#include "sheaf/parallel/matrix/small_matrix_loops.hpp"

namespace sheaf::parallel {

const MatrixLoops* baseline_loops() noexcept {
  static constexpr MatrixLoops kLoops = make_loops("baseline");
  return &kLoops;
}

}  // namespace sheaf::parallel
