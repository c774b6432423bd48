#include <numeric>

#include "tests/support/trial_parts.hpp"

namespace sheaf::test {

using comm::Group;
using comm::Operation;

Finish start_all_reduce(const Group& group, const Case& test) {
  const Bytes data = data_of(test, group.rank(), test.count);
  const Elements input(group, test.memory, test.dtype, data);
  const Elements output =
      test.in_place ? input
                    : Elements(group, test.memory, test.dtype, test.count);
  auto work = comm::all_reduce(group, input.buffer(), output.buffer(),
                               options_of(test));
  return [=]() mutable {
    work.wait();
    const std::string text = describe(Operation::kAllReduce, group, test);
    EXPECT_TRUE(output.holds(result_of(test, group.size(), test.count)))
        << text;
    EXPECT_TRUE(test.in_place || input.holds(data)) << text << ", input";
  };
}

Finish start_all_reduce_n(const Group& group, const Case& test) {
  const std::vector<std::size_t> sizes{test.count, 0, 3, test.count / 2};
  std::vector<Elements> buffers;
  std::vector<comm::Buffer> list;
  std::size_t skip = 0;
  for (const std::size_t size : sizes) {
    buffers.emplace_back(group, test.memory, test.dtype,
                         data_of(test, group.rank(), size, skip));
    list.push_back(buffers.back().buffer());
    skip += size;
  }
  auto work = comm::all_reduce_n(group, list, options_of(test));
  return [=]() mutable {
    work.wait();
    std::size_t at = 0;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_TRUE(buffers[i].holds(result_of(test, group.size(), sizes[i], at)))
          << describe(Operation::kAllReduceN, group, test) << ", buffer " << i;
      at += sizes[i];
    }
  };
}

Finish start_reduce(const Group& group, const Case& test) {
  const bool is_root = group.rank() == test.options.root;
  const Elements input(group, test.memory, test.dtype,
                       data_of(test, group.rank(), test.count));
  const Elements output =
      test.in_place
          ? input
          : Elements(group, test.memory, test.dtype, is_root ? test.count : 0);
  auto work =
      comm::reduce(group, input.buffer(), output.buffer(), options_of(test));
  return [=, kept = input]() mutable {
    work.wait();
    if (!is_root) return;
    EXPECT_TRUE(output.holds(result_of(test, group.size(), test.count)))
        << describe(Operation::kReduce, group, test);
  };
}

Finish start_reduce_scatter(const Group& group, const Case& test) {
  const auto me = static_cast<std::size_t>(group.rank());
  const auto counts = counts_of(group, test);
  const std::size_t total =
      std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t skip = std::accumulate(
      counts.begin(), counts.begin() + group.rank(), std::size_t{0});
  const Elements input(group, test.memory, test.dtype,
                       data_of(test, group.rank(), total));
  const Elements output(group, test.memory, test.dtype, counts[me]);
  auto work = comm::reduce_scatter(
      group, input.buffer(), output.buffer(), options_of(test),
      test.is_unequal ? comm::Counts(counts) : comm::Counts());
  return [=, kept = input]() mutable {
    work.wait();
    EXPECT_TRUE(output.holds(result_of(test, group.size(), counts[me], skip)))
        << describe(Operation::kReduceScatter, group, test);
  };
}

}  // namespace sheaf::test
