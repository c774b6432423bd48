#pragma once
// Whether gradients are exchanged while backward() computes the next ones.

#include <cstdint>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

enum class Overlap : std::uint8_t { kAuto, kOn, kOff };
// Resolves kAuto: overlap if cores are free for it, or if the group spans
// several hosts.
bool should_overlap(Overlap wish, const comm::Group& group);

}  // namespace sheaf::parallel
