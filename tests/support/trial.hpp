#pragma once
// One operation on exact data, checked bit by bit. The same code serves ranks
// as threads and ranks as processes.

#include <functional>
#include <string>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "tests/support/elements.hpp"

namespace sheaf::test {

struct Case {
  DType dtype = DType::kF32;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  std::size_t count = 0;  // of a block, where there are blocks
  Memory memory = Memory::kPlain;
  bool is_unequal = false;            // blocks
  bool in_place = false;              // where the operation can
  std::size_t first = 0;              // of the endless row of exact data
  comm::CollectiveOptions options{};  // root, algorithm, async ...; not op
};

// The operations that start() knows, send and receive last: as a step around
// the ring of ranks.
const std::vector<comm::Operation>& operations();

// Waits for the end and compares. It must be called once.
using Finish = std::function<void()>;

// All ranks of the group call it with the same arguments.
Finish start(comm::Operation operation, const comm::Group& group,
             const Case& test);

// Who and what, for messages.
std::string describe(comm::Operation operation, const comm::Group& group,
                     const Case& test);

}  // namespace sheaf::test
