#include <cstring>

#include "tests/support/trial_parts.hpp"

namespace sheaf::test {
namespace {

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

Bytes all_blocks(const Case& test, const std::vector<std::size_t>& counts) {
  Bytes all;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    append(all, data_of(test, static_cast<int>(rank), counts[rank]));
  return all;
}

comm::Counts given(const Case& test, const std::vector<std::size_t>& counts) {
  return test.is_unequal ? comm::Counts(counts) : comm::Counts();
}

}  // namespace

using comm::Group;
using comm::Operation;

std::vector<std::size_t> counts_of(const Group& group, const Case& test) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()),
                                  test.count);
  if (!test.is_unequal) return counts;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    counts[rank] = rank == 1 ? 0 : test.count + rank;
  return counts;
}

Finish start_broadcast(const Group& group, const Case& test) {
  const Elements data(group, test.memory, test.dtype,
                      data_of(test, group.rank(), test.count));
  auto work = comm::broadcast(group, data.buffer(), options_of(test));
  return [=]() mutable {
    work.wait();
    EXPECT_TRUE(data.holds(data_of(test, test.options.root, test.count)))
        << describe(Operation::kBroadcast, group, test);
  };
}

Finish start_gather(const Group& group, const Case& test) {
  const auto counts = counts_of(group, test);
  const auto me = static_cast<std::size_t>(group.rank());
  const bool is_root = group.rank() == test.options.root;
  const Bytes expected = is_root ? all_blocks(test, counts) : Bytes{};
  const Elements input(group, test.memory, test.dtype,
                       data_of(test, group.rank(), counts[me]));
  const Elements output(group, test.memory, test.dtype,
                        expected.size() / size_of(test.dtype));
  auto work = comm::gather(group, input.buffer(), output.buffer(),
                           options_of(test), given(test, counts));
  return [=, kept = input]() mutable {
    work.wait();
    EXPECT_TRUE(output.holds(expected))
        << describe(Operation::kGather, group, test);
  };
}

Finish start_all_gather(const Group& group, const Case& test) {
  const auto counts = counts_of(group, test);
  const auto me = static_cast<std::size_t>(group.rank());
  const Bytes expected = all_blocks(test, counts);
  const Bytes mine = data_of(test, group.rank(), counts[me]);
  const Elements output(group, test.memory, test.dtype,
                        expected.size() / size_of(test.dtype));
  const Elements apart(group, test.memory, test.dtype, mine);
  comm::ConstBuffer input = apart.buffer();
  if (test.in_place) {  // the rank's own block of the output
    std::size_t start = 0;
    for (std::size_t rank = 0; rank < me; ++rank) start += counts[rank];
    std::byte* own = output.data() + start * size_of(test.dtype);
    if (!mine.empty()) std::memcpy(own, mine.data(), mine.size());
    input.data = own;
  }
  auto work = comm::all_gather(group, input, output.buffer(), options_of(test),
                               given(test, counts));
  return [=]() mutable {
    work.wait();
    EXPECT_TRUE(output.holds(expected))
        << describe(Operation::kAllGather, group, test);
    EXPECT_TRUE(apart.holds(mine));
  };
}

Finish start_scatter(const Group& group, const Case& test) {
  const auto counts = counts_of(group, test);
  const auto me = static_cast<std::size_t>(group.rank());
  const bool is_root = group.rank() == test.options.root;
  const Elements input(group, test.memory, test.dtype,
                       is_root ? all_blocks(test, counts) : Bytes{});
  const Elements output(group, test.memory, test.dtype, counts[me]);
  auto work = comm::scatter(group, input.buffer(), output.buffer(),
                            options_of(test), given(test, counts));
  return [=, kept = input]() mutable {
    work.wait();
    EXPECT_TRUE(output.holds(data_of(test, group.rank(), counts[me])))
        << describe(Operation::kScatter, group, test);
  };
}

// The block from rank s to rank d is the data of "rank" s * ranks + d.
Finish start_all_to_all(const Group& group, const Case& test) {
  const int ranks = group.size();
  const auto count = [&](int from, int to) {
    return test.is_unequal
               ? test.count + static_cast<std::size_t>(from * 2 + to)
               : test.count;
  };
  Bytes sent;
  Bytes expected;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> receive_counts;
  for (int rank = 0; rank < ranks; ++rank) {
    send_counts.push_back(count(group.rank(), rank));
    receive_counts.push_back(count(rank, group.rank()));
    append(sent,
           data_of(test, group.rank() * ranks + rank, send_counts.back()));
    append(expected,
           data_of(test, rank * ranks + group.rank(), receive_counts.back()));
  }
  const Elements input(group, test.memory, test.dtype, sent);
  const Elements output(group, test.memory, test.dtype,
                        expected.size() / size_of(test.dtype));
  auto work =
      comm::all_to_all(group, input.buffer(), output.buffer(), options_of(test),
                       given(test, send_counts), given(test, receive_counts));
  return [=, kept = input]() mutable {
    work.wait();
    EXPECT_TRUE(output.holds(expected))
        << describe(Operation::kAllToAll, group, test);
  };
}

}  // namespace sheaf::test
