#include "tests/support/trial.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "tests/support/trial_parts.hpp"

namespace sheaf::test {

using comm::Group;
using comm::Operation;

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      Operation::kBarrier,   Operation::kBroadcast,  Operation::kReduce,
      Operation::kAllReduce, Operation::kAllReduceN, Operation::kGather,
      Operation::kAllGather, Operation::kScatter,    Operation::kReduceScatter,
      Operation::kAllToAll,  Operation::kSend};
  return all;
}

Finish start(Operation operation, const Group& group, const Case& test) {
  switch (operation) {
    case Operation::kBarrier:
      return [work = comm::barrier(group, options_of(test))]() mutable {
        work.wait();
      };
    case Operation::kBroadcast:
      return start_broadcast(group, test);
    case Operation::kReduce:
      return start_reduce(group, test);
    case Operation::kAllReduceN:
      return start_all_reduce_n(group, test);
    case Operation::kGather:
      return start_gather(group, test);
    case Operation::kAllGather:
      return start_all_gather(group, test);
    case Operation::kScatter:
      return start_scatter(group, test);
    case Operation::kReduceScatter:
      return start_reduce_scatter(group, test);
    case Operation::kAllToAll:
      return start_all_to_all(group, test);
    case Operation::kSend:
      return start_ring_step(group, test);
    default:
      return start_all_reduce(group, test);
  }
}

std::string describe(Operation operation, const Group& group,
                     const Case& test) {
  const auto& options = test.options;
  return concat(
      "rank ", group.rank(), " of ", group.size(), " on ", group.host_count(),
      " hosts: ", name_of(operation), " ", name_of(test.dtype), " ",
      name_of(test.op), ", ", test.count, " elements, root ", options.root,
      ", ", test.memory == Memory::kArena ? "arena" : "plain",
      test.is_unequal ? ", unequal" : "", test.in_place ? ", in place" : "",
      options.async ? ", async" : "",
      options.reproducible ? ", reproducible" : "", ", ",
      topo::name_of(options.algorithm));
}

// To the next rank, from the previous one.
Finish start_ring_step(const Group& group, const Case& test) {
  const int size = group.size();
  const int from = (group.rank() + size - 1) % size;
  const int tag = static_cast<int>(test.first % 1000);
  const Elements input(group, test.memory, test.dtype,
                       data_of(test, group.rank(), test.count));
  const Elements output(group, test.memory, test.dtype, test.count);
  auto receive = comm::irecv(group, output.buffer(), from, {.tag = tag});
  auto send = comm::isend(group, input.buffer(), (group.rank() + 1) % size,
                          {.tag = tag});
  return [=, kept = input]() mutable {
    receive.wait();
    send.wait();
    EXPECT_EQ(receive.source(), from);
    EXPECT_TRUE(output.holds(data_of(test, from, test.count)))
        << describe(Operation::kSend, group, test);
  };
}

}  // namespace sheaf::test
