#pragma once
// The operations of a group. All ranks of the group call the same operations
// in the same order with the same element type, count and options; a rank that
// does not gets, as all others, a MismatchError that names both calls.
//
// On return every rank holds its result (with `async`, after wait() on the
// Work). Until then the buffers must stay alive and untouched. An output may
// be the very same memory as its input ("in place").

#include <span>
#include <vector>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/options.hpp"
#include "sheaf/comm/group/work.hpp"

namespace sheaf::comm {

using Counts = std::span<const std::size_t>;

Work barrier(const Group& group, const CollectiveOptions& options = {});

// The root's elements to all.
Work broadcast(const Group& group, Buffer data,
               const CollectiveOptions& options = {});

// The reduction over all ranks to the root; other ranks' output is not used.
Work reduce(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options = {});

// The reduction over all ranks to all; every rank gets the same bits.
Work all_reduce(const Group& group, Buffer data,
                const CollectiveOptions& options = {});
Work all_reduce(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {});
// Several buffers of one type in one go.
Work all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const CollectiveOptions& options = {});

// Rank r's elements become block r of the output, on the root or on all. With
// `counts`, known to all ranks, blocks have unequal sizes.
Work gather(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options = {}, Counts counts = {});
Work all_gather(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {}, Counts counts = {});

// Block r of the root's input becomes rank r's output.
Work scatter(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options = {}, Counts counts = {});

// The same with blocks of unequal sizes, which the root alone knows: `counts`
// matters there, and other ranks know their own block. MismatchError where
// the two differ.
Work gatherv(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options, Counts counts);
Work scatterv(const Group& group, ConstBuffer input, Buffer output,
              const CollectiveOptions& options, Counts counts);

// Block r of the reduction over all ranks becomes rank r's output.
Work reduce_scatter(const Group& group, ConstBuffer input, Buffer output,
                    const CollectiveOptions& options = {}, Counts counts = {});

// Block r of the input becomes block `rank()` of rank r's output. With counts,
// blocks have unequal sizes: what is sent to and received from each rank. Not
// in place.
Work all_to_all(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {}, Counts send_counts = {},
                Counts receive_counts = {});

}  // namespace sheaf::comm
