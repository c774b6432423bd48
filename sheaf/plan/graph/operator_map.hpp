#pragma once
// How the operators of a step belong together: who calls whom, and which
// forward operator each backward one comes from. Nothing is known by name but
// what autograd's engine calls its own.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/plan/trace/step_trace.hpp"

namespace sheaf::plan {

struct OperatorMap {
  // By operator of the step; -1: none.
  std::vector<std::int32_t> parent;     // the operator that called it
  std::vector<std::int32_t> outermost;  // it, or the last of its parents
  // Of a function that the engine evaluates the forward operator: deepest of
  // those with its sequence number or, where it has none (old traces), the
  // last one of its name that no other function has; of one that takes a
  // gradient for its parameter the function before it on the thread.
  std::vector<std::int32_t> source;

  struct Unmatched {
    std::int32_t of = -1;
    std::string reason;
  };
  std::vector<Unmatched> unmatched;

  std::size_t backward = 0;     // functions of the engine, gradients left out
  std::size_t accumulated = 0;  // gradients taken
  std::size_t by_name = 0;      // functions without a number
};

// An operator that torch does not have.
struct CustomOperator {
  std::string name;                   // "mine::product"
  std::vector<std::string> backward;  // "MineBackward", …
  bool may_change = false;            // its precision; then it is a layer
};
using CustomOperators = std::vector<CustomOperator>;

OperatorMap map_operators(const StepTrace& step, const Names& names,
                          const CustomOperators& custom = {});

// The bytes of the gradients of a step of DDP, in the order of its buckets, as
// far as the trace tells them; none where DDP copies nothing.
std::vector<std::int64_t> gradient_bytes(const StepTrace& step,
                                         const Names& names);

struct BucketRule {
  std::int64_t first_bytes = std::int64_t{1} << 20;
  std::int64_t bytes = std::int64_t{25} << 20;
};

// The bytes of DDP's buckets: one closes when it has reached its size, and the
// first is small.
std::vector<std::int64_t> bucket_bytes(
    const std::vector<std::int64_t>& gradients, const BucketRule& rule = {});

}  // namespace sheaf::plan
