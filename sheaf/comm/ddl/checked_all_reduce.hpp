#pragma once
// An all-reduce that is checked against a reference: `check` of the DDL API.

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

// Calls `reduce`, which is to leave the reduction over all ranks in `buffers`
// (of one type), and compares every rank's result with one in higher
// precision. All ranks call it. Where a result is wrong on some rank, all ranks
// throw the same CheckError, naming the worst element, and each writes its
// dump (see dump.hpp); the group goes on working. NaN among the inputs is
// reported in the log. Needs twice the buffers' memory, and sends all inputs to
// all ranks.
void checked(const Group& group, std::span<const Buffer> buffers,
             const CheckedCall& call, const std::function<void()>& reduce);

}  // namespace sheaf::comm
