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
  std::size_t count = 0;  // of a block, for operations on blocks
  Memory memory = Memory::kPlain;
  bool is_unequal = false;            // blocks of unequal sizes
  bool in_place = false;              // if the operation supports it
  std::size_t first = 0;              // first element of the exact data
  comm::CollectiveOptions options{};  // root, algorithm, async ...; not op
};

// The operations that start() supports. Send and receive come last and are a
// step around the ring of ranks.
const std::vector<comm::Operation>& operations();

// Waits for the end and compares. Must be called exactly once.
using Finish = std::function<void()>;

// All ranks of the group call it with the same arguments.
Finish start(comm::Operation operation, const comm::Group& group,
             const Case& test);

// Describes the rank and the operation, for messages.
std::string describe(comm::Operation operation, const comm::Group& group,
                     const Case& test);

}  // namespace sheaf::test
