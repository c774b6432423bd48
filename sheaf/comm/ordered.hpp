#pragma once
#include "sheaf/comm/call.hpp"
#include "sheaf/comm/reduce_kernels.hpp"

namespace sheaf::comm {

// All-reduce whose bits depend on nothing but the ranks' inputs: each element
// is summed over the ranks 0, 1, 2 .. in this order, at one rank, then copied.
void ordered_all_reduce(Call& call, const std::byte* input, std::byte* output,
                        std::size_t count, const Reduction& reduction);

}  // namespace sheaf::comm
