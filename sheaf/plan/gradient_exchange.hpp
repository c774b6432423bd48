#pragma once
// What ranks that average their gradients add to the step of one.

#include <vector>

#include "sheaf/plan/operator_map.hpp"
#include "sheaf/plan/step_profile.hpp"

namespace sheaf::plan {

enum class ExchangeKind {
  kGradients,  // averages of gradients, in f32
  kHalf,       // the same in 16 bits
  kFactors,    // dAD: inputs and deltas of products, gradients of the rest
};
// "gradients", "half", "dad"; UsageError for another text.
ExchangeKind parse_exchange(const std::string& text);

struct ExchangeOptions {
  ExchangeKind kind = ExchangeKind::kGradients;
  int workers = 2;
  BucketRule buckets;
  // The exchange needs the cores that compute, so nothing overlaps.
  bool is_inline = false;
  std::int64_t launch_ns = 10'000;
};

// A step of this profile's model (mixed or not) with an all-reduce for each
// bucket as soon as its last gradient is there, and a wait for all of them
// after backward; of factors an all-gather after backward, and then products
// over the rows of all workers. A step that has collectives already is given
// back as it is.
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options);

// What each collective of the result takes there: the buffer of an all-reduce,
// the blocks of all workers of an all-gather.
std::vector<double> collective_bytes(const StepGraph& step);

}  // namespace sheaf::plan
