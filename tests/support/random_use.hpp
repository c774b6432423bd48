#pragma once
// Random sequences of operations on random groups.

#include <cstdint>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::test {

// Does so many sequences of a few operations each, on groups that overlap and
// come and go, and checks every result. All ranks of `world` call it with the
// same arguments. What fails names the seed.
void use_at_random(const comm::Group& world, std::uint64_t seed, int sequences);

// The given one, or SHEAF_TEST_SEED instead, to repeat a failure.
std::uint64_t seed_or(std::uint64_t seed);

}  // namespace sheaf::test
