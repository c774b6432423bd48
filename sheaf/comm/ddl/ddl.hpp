#pragma once
// API modeled on IBM's DDL: one world per process, reductions in place, sum or
// average. docs/howto/from_ddl.md compares the two. For other operations, use
// collectives.hpp with the group world(). Any thread may call these functions,
// but all ranks must call collectives in the same order.

#include <cstddef>
#include <span>
#include <string_view>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm::ddl {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  int num_hosts = 1;
  int device = -1;  // local_rank modulo the number of devices; -1: no devices
};

// Joins the other ranks; every rank must call it. For `options` see
// topo/options.hpp; if empty, SHEAF_OPTIONS is used. `devices` is the number of
// devices per host. Throws UsageError if called again before finalize().
Place init(std::string_view options = {}, int devices = 0);
bool is_initialized();
// Must be the last call of every rank; waits for the other ranks. Memory from
// allocate() is invalid afterwards. Throws UsageError before init().
void finalize();

// This and all functions below throw UsageError before init() and after
// finalize(), except free(nullptr) and the overloads with a group.
Place place();
Group world();

// Allocates memory that all ranks of the host can read, so that reductions need
// no copy. `alignment` must be a power of two. Not collective.
void* allocate(std::size_t bytes, std::size_t alignment = 64);
void free(void* memory);  // null is allowed

// Copies the elements of rank 0 to all ranks.
void bcast(Buffer data);

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;  // or kAvg
  // Use plain MPI_Allreduce, for comparisons.
  bool mpi = false;
  // If above 0, compares the result with a reference in higher precision (see
  // reference.hpp), and throws CheckError on all ranks if it is wrong on any.
  double check = 0;
};

// Reduces over all ranks, in place; all ranks get the result. all_reduce_n()
// reduces several buffers of one element type at once. The overloads with a
// group reduce over its ranks.
void all_reduce(Buffer data, const ReduceOptions& options = {});
void all_reduce_n(std::span<const Buffer> buffers,
                  const ReduceOptions& options = {});
void all_reduce(const Group& group, Buffer data,
                const ReduceOptions& options = {});
void all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const ReduceOptions& options = {});

}  // namespace sheaf::comm::ddl
