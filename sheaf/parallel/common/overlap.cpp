#include "sheaf/parallel/common/overlap.hpp"

#include <thread>

namespace sheaf::parallel {

// If all cores are computing, an overlapping exchange only takes cores away.
bool should_overlap(Overlap wish, const comm::Group& group) {
  if (wish != Overlap::kAuto) return wish == Overlap::kOn;
  return group.host_count() > 1 ||
         static_cast<unsigned>(2 * group.local_size()) <=
             std::thread::hardware_concurrency();
}

}  // namespace sheaf::parallel
