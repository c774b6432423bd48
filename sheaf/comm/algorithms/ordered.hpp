#pragma once
// Reductions across hosts whose result, bit for bit, depends only on the ranks'
// inputs: each element is summed on one rank, over the ranks 0, 1, 2 .. in this
// order.

#include "sheaf/comm/algorithms/schedule.hpp"
#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

void ordered_all_reduce(CollectiveCall& call, const std::byte* input,
                        std::byte* output, std::size_t count,
                        const Reduction& reduction);

// `output` is used on the root only.
void ordered_reduce(CollectiveCall& call, const std::byte* input,
                    std::byte* output, std::size_t count,
                    const Reduction& reduction, int root);

// Rank r gets the elements blocks[r] of the reduction.
void ordered_reduce_scatter(CollectiveCall& call, const std::byte* input,
                            std::byte* output, const std::vector<Range>& blocks,
                            const Reduction& reduction);

}  // namespace sheaf::comm
