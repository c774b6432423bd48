#pragma once
// Random sequences of operations on random groups.

#include <cstdint>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::test {

// Runs `sequences` sequences of a few operations each, on overlapping groups
// that are created and destroyed, and checks every result. All ranks of `world`
// must call it with the same arguments. Failures name the seed.
void use_at_random(const comm::Group& world, std::uint64_t seed, int sequences);

// SHEAF_TEST_SEED if it is set, to repeat a failure; otherwise `seed`.
std::uint64_t seed_or(std::uint64_t seed);

}  // namespace sheaf::test
