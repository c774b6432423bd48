#pragma once
// Whether gradients are exchanged while backward() computes the next ones.

#include <cstdint>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

enum class Overlap : std::uint8_t { kAuto, kOn, kOff };
// As wished; kAuto: where cores are left for it, or several hosts take part.
bool should_overlap(Overlap wish, const comm::Group& group);

}  // namespace sheaf::parallel
