#pragma once
// Other libraries' collectives, for comparison by `sheaf bench --versus`.

#include <functional>
#include <memory>
#include <string>

#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

// What is to be done, with buffers as in collectives.hpp. kSend means: each
// rank sends to the next and receives from the one before.
struct BaselineCall {
  Operation operation = Operation::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  // Elements of the buffer, or of one rank's block where there are blocks.
  std::size_t count = 0;
  // Input and output are the same memory; a block lies at its own place in
  // the buffer that holds all blocks.
  bool in_place = false;
};

// A library that all ranks have joined. One thread may use it, and no other
// thread may use the library behind it meanwhile.
class BaselineLibrary {
 public:
  virtual ~BaselineLibrary() = default;

  virtual std::string name() const = 0;

  // Does the call once, on these buffers; blocks until this rank is done.
  using Run = std::function<void(const void* input, void* output)>;
  // All that can be done before the buffers are known; UsageError as below.
  virtual Run prepare(const BaselineCall& call) = 0;

  // Where a result of `call` is found.
  virtual const void* result_of(const BaselineCall& call, const void* input,
                                const void* output) const {
    (void)call, (void)input;
    return output;
  }
};

// MPI, on a duplicate of MPI_COMM_WORLD of its own. MPI must be running: the
// ranks were started by an MPI launcher and have called comm::init. Destroy it
// before the world ends.
std::unique_ptr<BaselineLibrary> make_mpi_baseline();

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::string folder;            // all ranks see it; empty; for this run only
  std::string interface = "lo";  // network interface for TCP
};

// Gloo over TCP. What takes longer than a minute is a CommError.
std::unique_ptr<BaselineLibrary> make_gloo_baseline(const GlooOptions& options);

// UsageError when Sheaf was built without the library, or when it has no such
// operation, element type or reduction.
void check_mpi_baseline(const BaselineCall& call);
void check_gloo_baseline(const BaselineCall& call);

}  // namespace sheaf::comm
