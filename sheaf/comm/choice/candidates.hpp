#pragma once
// The ways that mode `p` tries.

#include <vector>

#include "sheaf/comm/choice/select.hpp"

namespace sheaf::comm {

// The choices worth a try for messages of up to `bytes`, the same list on
// every rank, without repetitions. `usual`, what mode `b` would take, is one
// of them. On one host: the short path, and pieces of 64 KiB to 1 MiB. On
// several: ring, halving or tree in each tier, through one rank of a host or
// all. Everywhere: a flat ring.
std::vector<Choice> candidates(const Layout& layout, const Choice& usual,
                               std::size_t bytes);

}  // namespace sheaf::comm
