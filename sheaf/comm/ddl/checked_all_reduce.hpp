#pragma once
// All-reduce with a check against a reference: option `check` of the DDL API.

#include <functional>
#include <span>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

struct CheckedCall {
  Operation operation = Operation::kAllReduce;
  ReduceOp op = ReduceOp::kSum;  // kSum or kAvg
  double check = 1;              // see CheckRule
};

// Calls `reduce`, which must leave the reduction over all ranks in `buffers`
// (of one element type), and compares the result of every rank with a reference
// in higher precision. All ranks must call it. If the result is wrong on any
// rank, all ranks throw the same CheckError, which names the worst element, and
// each writes its dump (see dump.hpp); the group remains usable. NaN inputs are
// reported in the log. Needs twice the memory of the buffers, and sends all
// inputs to all ranks.
void checked(const Group& group, std::span<const Buffer> buffers,
             const CheckedCall& call, const std::function<void()>& reduce);

}  // namespace sheaf::comm
