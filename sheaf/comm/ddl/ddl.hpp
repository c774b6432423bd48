#pragma once
// The API in the shape of IBM's DDL: one world per process, reductions in
// place, sum or average. docs/ddl.md compares the two. Everything else is in
// collectives.hpp, for the group world().

#include <cstddef>
#include <span>
#include <string_view>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm::ddl {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  int num_hosts = 1;
  int device = -1;  // local_rank modulo the devices; -1: there are none
};

// Joins the other ranks. `options` as in topo/options.hpp; an empty string
// takes SHEAF_OPTIONS. `devices` is their number on each host. UsageError when
// called twice without finalize() between.
Place init(std::string_view options = {}, int devices = 0);
bool is_initialized();
// Every rank's last call: waits for the others. Memory of allocate() is gone
// afterwards. Without it the others hear that this rank died.
void finalize();

// UsageError before init(), as for all that follows.
Place place();
Group world();

// Memory that all ranks of the host can read, so that reducing it copies
// nothing. `alignment` is a power of two.
void* allocate(std::size_t bytes, std::size_t alignment = 64);
void free(void* memory);  // null is allowed

// Rank 0's elements to all.
void bcast(Buffer data);

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;  // or kAvg
  // Plain MPI_Allreduce, with nothing of ours around it: the baseline.
  bool mpi = false;
  // Above 0: compares the result with one in higher precision, see check.hpp;
  // CheckError on all ranks when it is wrong on any.
  double check = 0;
};

// The reduction over all ranks to all, in place. The second form reduces
// several buffers of one type at once. With a group: over its ranks.
void all_reduce(Buffer data, const ReduceOptions& options = {});
void all_reduce_n(std::span<const Buffer> buffers,
                  const ReduceOptions& options = {});
void all_reduce(const Group& group, Buffer data,
                const ReduceOptions& options = {});
void all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const ReduceOptions& options = {});

}  // namespace sheaf::comm::ddl
