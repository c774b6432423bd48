#pragma once
// Collective operations. All ranks of the group must call the same operations
// in the same order, with the same element type, count and options. Otherwise
// all ranks throw MismatchError, which names both calls.
//
// On return every rank holds its result; with `async`, after wait() on the
// Work. Until then the buffers must stay alive and must not be accessed. An
// output may be the same memory as its input ("in place").
//
// Threads: any thread may call these functions. Calls on one group run one at a
// time, in the order in which they were made; a program that calls them from
// several threads must give them the same order on all ranks. Calls on
// different groups run concurrently. A Work may be dropped without wait(): the
// operation still completes, its buffers must stay alive until then, and its
// error is lost.
//
// Errors: UsageError for invalid arguments, CommError if a peer died or ended,
// TimeoutError if a peer is late. A group that has failed stays failed.

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/work.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/topo/algorithm.hpp"

namespace sheaf::comm {

using topo::Algorithm;

struct CollectiveOptions {
  ReduceOp op = ReduceOp::kSum;
  int root = 0;                            // rank in the group
  Algorithm algorithm = Algorithm::kAuto;  // kAuto: chosen by select.hpp
  bool reproducible = false;               // see docs/explanation/algorithms.md
  bool async = false;                      // run on the group's own thread
  // Maximum time to wait for the other ranks; zero: the default timeout.
  std::chrono::milliseconds timeout{0};
  // Part of the fingerprint, so all ranks must pass the same name. Not stored.
  std::string_view name = {};
};

using Counts = std::span<const std::size_t>;

Work barrier(const Group& group, const CollectiveOptions& options = {});

// Copies the root's elements to all ranks.
Work broadcast(const Group& group, Buffer data,
               const CollectiveOptions& options = {});

// Reduces over all ranks; the root gets the result. The output of other ranks
// is not used.
Work reduce(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options = {});

// Reduces over all ranks; all ranks get the same result, bit for bit.
Work all_reduce(const Group& group, Buffer data,
                const CollectiveOptions& options = {});
Work all_reduce(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {});
// Reduces several buffers of one element type in one operation.
Work all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const CollectiveOptions& options = {});

// The elements of rank r become block r of the output: on the root (gather) or
// on all ranks (all_gather). `counts`, the same on all ranks, specifies blocks
// of unequal sizes.
Work gather(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options = {}, Counts counts = {});
Work all_gather(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {}, Counts counts = {});

// Block r of the root's input becomes the output of rank r.
Work scatter(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options = {}, Counts counts = {});

// Same as gather and scatter, with blocks of unequal sizes that only the root
// knows: `counts` is used on the root only, and the other ranks pass a buffer
// of their own block's size. Throws MismatchError if the sizes differ.
Work gatherv(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options, Counts counts);
Work scatterv(const Group& group, ConstBuffer input, Buffer output,
              const CollectiveOptions& options, Counts counts);

// Block r of the reduction over all ranks becomes the output of rank r.
Work reduce_scatter(const Group& group, ConstBuffer input, Buffer output,
                    const CollectiveOptions& options = {}, Counts counts = {});

// Block r of the input becomes block `rank()` of the output of rank r. With
// counts, blocks have unequal sizes: the numbers of elements sent to and
// received from each rank. Does not work in place.
Work all_to_all(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options = {}, Counts send_counts = {},
                Counts receive_counts = {});

}  // namespace sheaf::comm
