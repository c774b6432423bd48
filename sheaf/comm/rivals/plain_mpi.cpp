#include <algorithm>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/comm/report/iteration_stats.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 30;  // int in MPI

void call_mpi(Transport& transport, const Buffer& data, ReduceOp op) {
  LibraryAllReduce* library = transport.library_all_reduce();
  SHEAF_CHECK(library, "mpi=true needs MPI, but these ranks use the transport ",
              transport.name(),
              "; omit mpi, or start the program with sheaf run or mpirun");
  for (std::size_t at = 0; at < data.count; at += kMostElements)
    library->run(LibraryAllReduce::Method::kAllReduce,
                 bytes_of(data.data) + at * size_of(data.dtype),
                 std::min(kMostElements, data.count - at), data.dtype, op);
}

// The sum of 16-bit floats may overflow their type even if the average does
// not, so the sum is computed in f32.
void average_halves(Transport& transport, const Buffer& data,
                    const Reduction& how) {
  const auto sums = std::make_unique_for_overwrite<float[]>(data.count);
  const void* inputs[] = {data.data};
  reduce_to_partials(how, inputs, sums.get(), data.count);
  call_mpi(transport, {sums.get(), data.count, DType::kF32}, how.op);
  const void* sources[] = {sums.get()};
  reduce_partials(how, sources, data.data, data.count);
}

}  // namespace

void plain_mpi_all_reduce(const Group& group, Buffer data, ReduceOp op) {
  check_reduction(group, Operation::kAllReduce, op, data.dtype);
  GroupCore& core = group.core();
  Transport& transport = core.runtime().transport();
  SHEAF_CHECK(core.size() == transport.size(),
              "mpi=true supports the world group only; group ", core.id(),
              " has ", core.size(), " of ", transport.size(), " ranks");
  SHEAF_CHECK(!core.runtime().options().reproducible || !is_float(data.dtype),
              "mpi=true with -reproducible: MPI_Allreduce does not guarantee "
              "the order of additions; omit one of them");
  const Reduction how{.dtype = data.dtype,
                      .op = op,
                      .divisor = op == ReduceOp::kAvg ? core.size() : 1};
  const auto sum_and_divide = [&] {
    if (how.divisor > 1 && is_half(data.dtype))
      return average_halves(transport, data, how);
    call_mpi(transport, data, op);
    if (how.divisor == 1) return;
    const void* sources[] = {data.data};
    void* const outputs[] = {data.data};
    reduce(how, sources, outputs, data.count);
  };
  core.submit(/*async=*/false,
              [&] {
                IterationStats::of(core).count_call();
                if (core.size() == 1) return;
                RankEnd& end = core.runtime().my_end();
                CallNumber number = end.last(kPlainCalls);
                ++number.sequence;
                end.note_call(number);
                try {
                  sum_and_divide();
                } catch (const CommError&) {
                  note_lost_peer(std::current_exception());
                  throw;
                }
              })
      .wait();
}

}  // namespace sheaf::comm
