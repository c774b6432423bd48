#pragma once
// Relations between the operators of a step: which operator calls which, and
// from which forward operator each backward one comes. The only built-in names
// are those of the autograd engine.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/plan/trace/step_trace.hpp"

namespace sheaf::plan {

struct OperatorMap {
  // Indexed by operator of the step; -1: none.
  std::vector<std::int32_t> parent;     // caller
  std::vector<std::int32_t> outermost;  // outermost caller, or itself
  // For a function evaluated by the engine: its forward operator, the deepest
  // one with its sequence number or, without a number (old traces), the last
  // one of its name that no other function has. For a function that accumulates
  // a parameter's gradient: the function before it on the thread.
  std::vector<std::int32_t> source;

  struct Unmatched {
    std::int32_t of = -1;
    std::string reason;
  };
  std::vector<Unmatched> unmatched;

  std::size_t backward = 0;     // engine functions, except accumulation
  std::size_t accumulated = 0;  // gradients accumulated
  std::size_t by_name = 0;      // matched by name, without a number
};

// An operator that is not part of torch.
struct CustomOperator {
  std::string name;                   // "mine::product"
  std::vector<std::string> backward;  // "MineBackward", …
  bool may_change = false;            // its precision may change: it is a layer
};
using CustomOperators = std::vector<CustomOperator>;

// Unmatched functions are listed in the result with a reason.
OperatorMap map_operators(const StepTrace& step, const Names& names,
                          const CustomOperators& custom = {});

// Bytes of the gradients of a DDP step, in the order of its buckets, as far as
// the trace records them; empty if DDP does not copy gradients.
std::vector<std::int64_t> ddp_gradient_bytes(const StepTrace& step,
                                             const Names& names);

// Bytes of the buckets of PyTorch's DistributedDataParallel, for traces of
// torch.profiler: a bucket is closed when it has reached its size. Sheaf fills
// its buckets by plan_buckets().
std::vector<std::int64_t> ddp_bucket_bytes(
    const std::vector<std::int64_t>& gradients, const BucketCaps& caps = {});

}  // namespace sheaf::plan
