#pragma once
// The choices that mode `p` measures.

#include <vector>

#include "sheaf/comm/choice/select.hpp"

namespace sheaf::comm {

// The choices worth measuring for messages of up to `bytes`, without
// duplicates; the same list on every rank. It contains `usual`, the choice of
// mode `b`, and a flat ring. On one host it also contains the short path and
// pieces of 64 KiB to 1 MiB; on several hosts, ring, halving or tree in each
// tier, through one rank or all ranks of a host.
std::vector<Choice> candidates(const Layout& layout, const Choice& usual,
                               std::size_t bytes);

}  // namespace sheaf::comm
