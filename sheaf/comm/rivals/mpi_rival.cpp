// MPI's collectives, called as a program without Sheaf would call them.

#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "sheaf/comm/transport/mpi_types.hpp"

namespace sheaf::comm {
namespace {

void check(int code) {
  if (code != MPI_SUCCESS)
    throw CommError(concat("MPI failed: ", mpi_error_text(code)));
}

// A call with all arguments of the MPI function.
struct Prepared {
  RivalCall call;
  MPI_Datatype type;
  MPI_Op op;
  int count;
  int rank;
  int size;
  MPI_Comm comm;

  bool is_root() const { return rank == call.root; }
  // MPI requires MPI_IN_PLACE instead of the same address twice.
  const void* in(const void* input) const {
    return call.in_place ? MPI_IN_PLACE : input;
  }
  const void* root_in(const void* input) const {
    return call.in_place && is_root() ? MPI_IN_PLACE : input;
  }
};

int reduce_scatter(const Prepared& p, const void* input, void* output) {
  // In place, MPI stores the result at the start of the buffer.
  void* result = p.call.in_place ? const_cast<void*>(input) : output;
  return MPI_Reduce_scatter_block(p.in(input), result, p.count, p.type, p.op,
                                  p.comm);
}

int scatter(const Prepared& p, const void* input, void* output) {
  void* result = p.call.in_place && p.is_root() ? MPI_IN_PLACE : output;
  return MPI_Scatter(input, p.count, p.type, result, p.count, p.type,
                     p.call.root, p.comm);
}

int send_receive(const Prepared& p, const void* input, void* output) {
  return MPI_Sendrecv(input, p.count, p.type, (p.rank + 1) % p.size, 0, output,
                      p.count, p.type, (p.rank + p.size - 1) % p.size, 0,
                      p.comm, MPI_STATUS_IGNORE);
}

int run(const Prepared& p, const void* input, void* output) {
  const int root = p.call.root;
  switch (p.call.operation) {
    case Operation::kBarrier:
      return MPI_Barrier(p.comm);
    case Operation::kBroadcast:
      return MPI_Bcast(output, p.count, p.type, root, p.comm);
    case Operation::kReduce:
      return MPI_Reduce(p.root_in(input), output, p.count, p.type, p.op, root,
                        p.comm);
    case Operation::kGather:
      return MPI_Gather(p.root_in(input), p.count, p.type, output, p.count,
                        p.type, root, p.comm);
    case Operation::kAllGather:
      return MPI_Allgather(p.in(input), p.count, p.type, output, p.count,
                           p.type, p.comm);
    case Operation::kScatter:
      return scatter(p, input, output);
    case Operation::kReduceScatter:
      return reduce_scatter(p, input, output);
    case Operation::kAllToAll:
      return MPI_Alltoall(input, p.count, p.type, output, p.count, p.type,
                          p.comm);
    case Operation::kSend:
      return send_receive(p, input, output);
    default:
      return MPI_Allreduce(p.in(input), output, p.count, p.type, p.op, p.comm);
  }
}

// The communicator is freed by MPI_Finalize: freeing it is collective, and
// after a failure not all ranks may take part.
class MpiBaseline final : public RivalLibrary {
 public:
  MpiBaseline() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  std::string name() const override { return "mpi"; }

  Run prepare(const RivalCall& call) override {
    check_mpi_rival(call);
    Prepared prepared{call,
                      mpi_type(call.dtype),
                      mpi_op(call.op, call.dtype),
                      static_cast<int>(call.count),
                      0,
                      1,
                      comm_};
    MPI_Comm_rank(comm_, &prepared.rank);
    MPI_Comm_size(comm_, &prepared.size);
    return [prepared](const void* input, void* output) {
      check(run(prepared, input, output));
    };
  }

  const void* result_of(const RivalCall& call, const void* input,
                        const void* output) const override {
    const bool is_at_start =
        call.operation == Operation::kReduceScatter && call.in_place;
    return is_at_start ? input : output;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

void check_mpi_rival(const RivalCall& call) {
  SHEAF_CHECK(!is_half(call.dtype), "MPI has no element type ",
              name_of(call.dtype), "; compare with another --dtype");
  SHEAF_CHECK(call.op != ReduceOp::kAvg,
              "MPI has no reduction avg; compare with --op sum");
  SHEAF_CHECK(call.count <= std::numeric_limits<int>::max(),
              "MPI counts elements in an int, but ", call.count,
              " do not fit; choose a smaller -e");
}

std::unique_ptr<RivalLibrary> make_mpi_rival() {
  int is_running = 0;
  MPI_Initialized(&is_running);
  SHEAF_CHECK(is_running,
              "there is no MPI to compare with: this process was started "
              "without an MPI launcher; pass -n");
  return std::make_unique<MpiBaseline>();
}

}  // namespace sheaf::comm
