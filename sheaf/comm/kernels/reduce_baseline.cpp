// The reduction loops for every processor of this architecture.

#include "sheaf/comm/kernels/reduce_loops_functions.hpp"

namespace sheaf::comm {

const ReduceTable* baseline_table() noexcept {
  static constexpr ReduceTable kTable = make_table("baseline");
  return &kTable;
}

}  // namespace sheaf::comm
