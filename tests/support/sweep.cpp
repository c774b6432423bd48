#include "tests/support/sweep.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "sheaf/base/error.hpp"
#include "tests/support/exact.hpp"

namespace sheaf::test {
namespace {

using comm::Buffer;
using comm::Group;
using comm::ReduceOp;
using Bytes = std::vector<std::byte>;

std::string text(const Group& group, const Case& test) {
  return concat("rank ", group.rank(), " of ", group.size(), ", ",
                name_of(test.dtype), " ", name_of(test.op), ", ", test.count,
                " elements, ",
                test.memory == Memory::kArena ? "arena" : "plain", ", ",
                topo::name_of(test.options.algorithm));
}

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// Unequal blocks: rank r has base + r elements, rank 1 none.
std::vector<std::size_t> unequal_counts(int ranks, std::size_t base) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back(rank == 1 ? 0 : base + static_cast<std::size_t>(rank));
  return counts;
}

comm::CollectiveOptions with_op(const Case& test, int root = 0) {
  auto options = test.options;
  options.op = test.op;
  options.root = root;
  return options;
}

Bytes data_of(const Case& test, int rank, std::size_t count,
              std::size_t first = 0) {
  return exact_data(test.dtype, test.op, rank, count, first);
}

}  // namespace

Elements::Elements(const Group& group, const Case& test, std::size_t count)
    : dtype_(test.dtype), count_(count) {
  const std::size_t bytes = count * size_of(test.dtype);
  memory_ =
      test.memory == Memory::kArena
          ? group.allocate_bytes(bytes)
          : std::shared_ptr<std::byte>(new std::byte[bytes + 1],
                                       std::default_delete<std::byte[]>());
  if (bytes) std::memset(memory_.get(), 0x5a, bytes);
}

Elements::Elements(const Group& group, const Case& test, const Bytes& contents)
    : Elements(group, test, contents.size() / size_of(test.dtype)) {
  if (!contents.empty())
    std::memcpy(memory_.get(), contents.data(), contents.size());
}

Buffer Elements::buffer() const { return {memory_.get(), count_, dtype_}; }

Bytes Elements::contents() const {
  return {memory_.get(), memory_.get() + count_ * size_of(dtype_)};
}

void check_all_reduce(const Group& group, const Case& test) {
  const auto expected =
      exact_result(test.dtype, test.op, group.size(), test.count);
  const Elements in_place(group, test, data_of(test, group.rank(), test.count));
  comm::all_reduce(group, in_place.buffer(), with_op(test)).wait();
  EXPECT_EQ(in_place.contents(), expected) << text(group, test) << ", in place";
  const Elements input(group, test, data_of(test, group.rank(), test.count));
  const Elements output(group, test, test.count);
  comm::all_reduce(group, input.buffer(), output.buffer(), with_op(test))
      .wait();
  EXPECT_EQ(output.contents(), expected) << text(group, test);
  EXPECT_EQ(input.contents(), data_of(test, group.rank(), test.count));
}

void check_all_reduce_n(const Group& group, const Case& test) {
  const std::size_t sizes[] = {test.count, 0, 3, test.count / 2};
  std::vector<Elements> buffers;
  std::vector<Buffer> list;
  std::size_t first = 0;
  for (const std::size_t size : sizes) {
    buffers.emplace_back(group, test, data_of(test, group.rank(), size, first));
    list.push_back(buffers.back().buffer());
    first += size;
  }
  comm::all_reduce_n(group, list, with_op(test)).wait();
  first = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].contents(),
              exact_result(test.dtype, test.op, group.size(), sizes[i], first))
        << text(group, test) << ", buffer " << i;
    first += sizes[i];
  }
}

void check_reduce(const Group& group, const Case& test) {
  for (const int root : {0, group.size() - 1}) {
    const Elements input(group, test, data_of(test, group.rank(), test.count));
    const bool is_root = group.rank() == root;
    const Elements output(group, test, is_root ? test.count : 0);
    comm::reduce(group, input.buffer(), output.buffer(), with_op(test, root))
        .wait();
    if (is_root) {
      EXPECT_EQ(output.contents(),
                exact_result(test.dtype, test.op, group.size(), test.count))
          << text(group, test) << ", root " << root;
    }
  }
}

void check_reduce_scatter(const Group& group, const Case& test) {
  const auto me = static_cast<std::size_t>(group.rank());
  const auto ranks = static_cast<std::size_t>(group.size());
  const Elements input(group, test,
                       data_of(test, group.rank(), test.count * ranks));
  const Elements output(group, test, test.count);
  comm::reduce_scatter(group, input.buffer(), output.buffer(), with_op(test))
      .wait();
  EXPECT_EQ(output.contents(), exact_result(test.dtype, test.op, group.size(),
                                            test.count, me * test.count))
      << text(group, test);

  const auto counts = unequal_counts(group.size(), test.count);
  std::size_t total = 0;
  std::size_t start = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) start = total;
    total += counts[r];
  }
  const Elements unequal(group, test, data_of(test, group.rank(), total));
  const Elements part(group, test, counts[me]);
  comm::reduce_scatter(group, unequal.buffer(), part.buffer(), with_op(test),
                       counts)
      .wait();
  EXPECT_EQ(part.contents(),
            exact_result(test.dtype, test.op, group.size(), counts[me], start))
      << text(group, test) << ", unequal";
}

void check_broadcast(const Group& group, const Case& test) {
  for (const int root : {0, group.size() / 2, group.size() - 1}) {
    const Elements data(group, test, data_of(test, group.rank(), test.count));
    comm::broadcast(group, data.buffer(), with_op(test, root)).wait();
    EXPECT_EQ(data.contents(), data_of(test, root, test.count))
        << text(group, test) << ", root " << root;
  }
}

void check_gather(const Group& group, const Case& test) {
  const auto me = static_cast<std::size_t>(group.rank());
  for (const bool is_unequal : {false, true}) {
    std::vector<std::size_t> counts;
    if (is_unequal) counts = unequal_counts(group.size(), test.count);
    const int root = is_unequal ? 0 : group.size() - 1;
    const std::size_t mine = is_unequal ? counts[me] : test.count;
    Bytes expected;
    for (int rank = 0; rank < group.size(); ++rank)
      append(expected,
             data_of(test, rank,
                     is_unequal ? counts[static_cast<std::size_t>(rank)]
                                : test.count));
    const bool is_root = group.rank() == root;
    const Elements input(group, test, data_of(test, group.rank(), mine));
    const Elements output(group, test,
                          is_root ? expected.size() / size_of(test.dtype) : 0);
    comm::gather(group, input.buffer(), output.buffer(), with_op(test, root),
                 counts)
        .wait();
    if (is_root) {
      EXPECT_EQ(output.contents(), expected)
          << text(group, test) << ", unequal " << is_unequal;
    }
  }
}

void check_all_gather(const Group& group, const Case& test) {
  const auto me = static_cast<std::size_t>(group.rank());
  for (const bool is_unequal : {false, true}) {
    std::vector<std::size_t> counts;
    if (is_unequal) counts = unequal_counts(group.size(), test.count);
    Bytes expected;
    for (int rank = 0; rank < group.size(); ++rank)
      append(expected,
             data_of(test, rank,
                     is_unequal ? counts[static_cast<std::size_t>(rank)]
                                : test.count));
    const std::size_t mine = is_unequal ? counts[me] : test.count;
    const Elements input(group, test, data_of(test, group.rank(), mine));
    const Elements output(group, test, expected.size() / size_of(test.dtype));
    comm::all_gather(group, input.buffer(), output.buffer(), with_op(test),
                     counts)
        .wait();
    EXPECT_EQ(output.contents(), expected)
        << text(group, test) << ", unequal " << is_unequal;
  }
  // In place: the input is the rank's own block of the output.
  const Elements output(group, test,
                        test.count * static_cast<std::size_t>(group.size()));
  const std::size_t bytes = test.count * size_of(test.dtype);
  auto* own = static_cast<std::byte*>(output.buffer().data) + me * bytes;
  const Bytes mine = data_of(test, group.rank(), test.count);
  if (bytes) std::memcpy(own, mine.data(), bytes);
  comm::all_gather(group, comm::ConstBuffer(own, test.count, test.dtype),
                   output.buffer(), with_op(test))
      .wait();
  Bytes expected;
  for (int rank = 0; rank < group.size(); ++rank)
    append(expected, data_of(test, rank, test.count));
  EXPECT_EQ(output.contents(), expected) << text(group, test) << ", in place";
}

void check_scatter(const Group& group, const Case& test) {
  const auto me = static_cast<std::size_t>(group.rank());
  for (const bool is_unequal : {false, true}) {
    std::vector<std::size_t> counts;
    if (is_unequal) counts = unequal_counts(group.size(), test.count);
    const int root = is_unequal ? group.size() - 1 : 0;
    Bytes whole;
    Bytes expected;
    for (int rank = 0; rank < group.size(); ++rank) {
      const auto block = data_of(
          test, rank,
          is_unequal ? counts[static_cast<std::size_t>(rank)] : test.count);
      append(whole, block);
      if (rank == group.rank()) expected = block;
    }
    const Elements input(group, test, group.rank() == root ? whole : Bytes{});
    const Elements output(group, test, is_unequal ? counts[me] : test.count);
    comm::scatter(group, input.buffer(), output.buffer(), with_op(test, root),
                  counts)
        .wait();
    EXPECT_EQ(output.contents(), expected)
        << text(group, test) << ", unequal " << is_unequal;
  }
}

void check_all_to_all(const Group& group, const Case& test) {
  const int ranks = group.size();
  // The block from rank s to rank d is the data of "rank" s * ranks + d.
  for (const bool is_unequal : {false, true}) {
    const auto size = [&](int from, int to) {
      return is_unequal ? test.count + static_cast<std::size_t>(from * 2 + to)
                        : test.count;
    };
    Bytes sent;
    Bytes expected;
    std::vector<std::size_t> send_counts;
    std::vector<std::size_t> receive_counts;
    for (int rank = 0; rank < ranks; ++rank) {
      append(sent, data_of(test, group.rank() * ranks + rank,
                           size(group.rank(), rank)));
      append(expected, data_of(test, rank * ranks + group.rank(),
                               size(rank, group.rank())));
      send_counts.push_back(size(group.rank(), rank));
      receive_counts.push_back(size(rank, group.rank()));
    }
    if (!is_unequal) send_counts = receive_counts = {};
    const Elements input(group, test, sent);
    const Elements output(group, test, expected.size() / size_of(test.dtype));
    comm::all_to_all(group, input.buffer(), output.buffer(), with_op(test),
                     send_counts, receive_counts)
        .wait();
    EXPECT_EQ(output.contents(), expected)
        << text(group, test) << ", unequal " << is_unequal;
  }
}

void check_everything(const Group& group, const Case& test) {
  check_all_reduce(group, test);
  check_reduce(group, test);
  check_reduce_scatter(group, test);
  check_all_reduce_n(group, test);
  if (test.op != ReduceOp::kSum) return;
  check_broadcast(group, test);
  check_gather(group, test);
  check_all_gather(group, test);
  check_scatter(group, test);
  check_all_to_all(group, test);
  comm::barrier(group, test.options).wait();
}

}  // namespace sheaf::test
