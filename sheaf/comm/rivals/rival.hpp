#pragma once
// Collectives of other libraries, for comparison by `sheaf bench --versus` and
// by `mpi=true` of the DDL API.

#include <functional>
#include <memory>
#include <string>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

// Description of a call, with buffers as in collectives.hpp. With kSend, each
// rank sends to the next rank and receives from the previous one.
struct RivalCall {
  Operation operation = Operation::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  // Number of elements of the buffer or, for operations on blocks, of one
  // rank's block.
  std::size_t count = 0;
  // Input and output are the same memory; a block is located at its position in
  // the buffer that holds all blocks.
  bool in_place = false;
};

// A library that all ranks have joined. Only one thread may use it, and no
// other thread may use the underlying library at the same time.
class RivalLibrary {
 public:
  virtual ~RivalLibrary() = default;

  virtual std::string name() const = 0;

  // Performs the call once on these buffers; blocks until this rank is done.
  using Run = std::function<void(const void* input, void* output)>;
  // Does the preparation that does not depend on the buffers. Throws UsageError
  // like the check functions below.
  virtual Run prepare(const RivalCall& call) = 0;

  // Address of the result of `call`.
  virtual const void* result_of(const RivalCall& call, const void* input,
                                const void* output) const {
    (void)call, (void)input;
    return output;
  }
};

// MPI, on its own duplicate of MPI_COMM_WORLD. MPI must be initialized: the
// ranks were started by an MPI launcher and have called comm::init. The result
// must be destroyed before the world ends.
std::unique_ptr<RivalLibrary> make_mpi_rival();

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::string folder;            // shared by all ranks; new and empty
  std::string interface = "lo";  // network interface for TCP
};

// Gloo over TCP. Operations that take longer than a minute throw CommError.
std::unique_ptr<RivalLibrary> make_gloo_rival(const GlooOptions& options);

// Throw UsageError if Sheaf was built without the library, or if the library
// does not support the operation, element type or reduction.
void check_mpi_rival(const RivalCall& call);
void check_gloo_rival(const RivalCall& call);

// Plain MPI_Allreduce, in place: without fingerprints and monitoring of peers.
// An average divides the sum at the end. Does nothing with one rank. Throws
// UsageError without MPI, for groups other than the world, and for floats in a
// world with -reproducible.
void plain_mpi_all_reduce(const Group& group, Buffer data, ReduceOp op);

}  // namespace sheaf::comm
