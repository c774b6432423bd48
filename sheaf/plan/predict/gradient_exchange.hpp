#pragma once
// What ranks that average their gradients add to the step of one.

#include <vector>

#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/predict/factor_layers.hpp"

namespace sheaf::plan {

struct ExchangeOptions {
  ExchangePlan ways;
  int workers = 2;
  // Rows of all workers as a multiple of this one's, where they are unlike;
  // 0: as many as there are workers.
  double shares = 0;
  BucketRule buckets;
  // The exchange needs the cores that compute, so nothing overlaps.
  bool is_inline = false;
  std::int64_t launch_ns = 10'000;
};

// A step of this profile's model (mixed or not) with an all-reduce for each
// bucket as soon as its last gradient is there, and a wait for all of them
// after backward. Of layers that send factors, inputs are gathered when their
// product is done, deltas when backward has them, in parcels; the products
// over the rows of all workers follow when all has come. A step that has
// collectives already is given back as it is.
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options);
// The same for those who do it often: `layers` are its factor_layers().
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options,
                        const std::vector<FactorLayer>& layers);

// The ways that layers take under precisions: a weight that any kind of worker
// casts is no factor of a product that could be sent, so its gradient is.
ExchangePlan ways_under(const ExchangePlan& ways, const ModelGraph& graph,
                        const std::vector<PrecisionPlan>& plans);

// UsageError for layers that the model does not have, and for factors of one
// that is no product of matrices.
void check_ways(const ExchangePlan& ways, const StepProfile& profile);

// What each collective of the result takes there: the buffer of an all-reduce,
// the blocks of all workers of an all-gather.
std::vector<double> collective_bytes(const StepGraph& step);

}  // namespace sheaf::plan
