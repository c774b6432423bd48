#pragma once
// Shared by the files that implement trial.hpp.

#include "tests/support/exact.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::test {

inline comm::CollectiveOptions options_of(const Case& test) {
  auto options = test.options;
  options.op = test.op;
  return options;
}

inline Bytes data_of(const Case& test, int rank, std::size_t count,
                     std::size_t skip = 0) {
  return exact_data(test.dtype, test.op, rank, count, test.first + skip);
}

inline Bytes result_of(const Case& test, int ranks, std::size_t count,
                       std::size_t skip = 0) {
  return exact_result(test.dtype, test.op, ranks, count, test.first + skip);
}

// Inputs that are not checked are kept until the end, as `kept`, since an
// asynchronous operation may read them until then.

// Counts of the ranks' blocks: equal, or `count` + rank, but rank 1 has none.
std::vector<std::size_t> counts_of(const comm::Group& group, const Case& test);

Finish start_all_reduce(const comm::Group& group, const Case& test);
Finish start_all_reduce_n(const comm::Group& group, const Case& test);
Finish start_reduce(const comm::Group& group, const Case& test);
Finish start_reduce_scatter(const comm::Group& group, const Case& test);
Finish start_broadcast(const comm::Group& group, const Case& test);
Finish start_gather(const comm::Group& group, const Case& test);
Finish start_all_gather(const comm::Group& group, const Case& test);
Finish start_scatter(const comm::Group& group, const Case& test);
Finish start_all_to_all(const comm::Group& group, const Case& test);
Finish start_ring_step(const comm::Group& group, const Case& test);

}  // namespace sheaf::test
