#include "sheaf/comm/plain_mpi.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/checks.hpp"
#include "sheaf/comm/reduce_kernels.hpp"
#include "sheaf/comm/reporter.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 30;  // MPI counts int

void call_mpi(Transport& transport, const Buffer& data, ReduceOp op) {
  for (std::size_t at = 0; at < data.count; at += kMostElements)
    SHEAF_CHECK(
        transport.baseline_all_reduce(
            Baseline::kAllReduce,
            bytes_of(data.data) + at * size_of(data.dtype),
            std::min(kMostElements, data.count - at), data.dtype, op),
        "mpi=true needs MPI, and these ranks run on ", transport.name(),
        "; leave mpi out, or start the program with sheaf run or mpirun");
}

}  // namespace

void plain_mpi_all_reduce(const Group& group, Buffer data, ReduceOp op) {
  check_reduction(group, Operation::kAllReduce, op, data.dtype);
  GroupCore& core = group.core();
  Transport& transport = core.runtime().transport();
  SHEAF_CHECK(core.size() == transport.size(),
              "mpi=true serves the world only, group ", core.id(), " has ",
              core.size(), " of ", transport.size(), " ranks");
  core.submit(/*async=*/false, [&] {
    core.reporter().count_call();
    if (core.size() == 1) return;
    RankEnd& end = core.runtime().my_end();
    CallNumber number = end.last(kPlainCalls);
    ++number.sequence;
    end.note_call(number);
    call_mpi(transport, data, op);
    if (op != ReduceOp::kAvg) return;
    const void* sources[] = {data.data};
    void* const outputs[] = {data.data};
    reduce({.dtype = data.dtype, .op = op, .divisor = core.size()}, sources,
           outputs, data.count);
  });
}

}  // namespace sheaf::comm
