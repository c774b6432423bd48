#pragma once
// Adds the exchange of gradients to the step of a single worker.

#include <vector>

#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/predict/factor_layers.hpp"

namespace sheaf::plan {

struct ExchangeOptions {
  ExchangePlan routes;
  int workers = 2;
  int hosts = 1;
  bool is_on_devices = false;  // all workers have their gradients on GPUs
  // Rows of all workers divided by this worker's rows; 0: equal shares.
  double shares = 0;
  BucketCaps caps;
  // The exchange uses the cores that compute, so nothing overlaps.
  bool is_inline = false;
  std::int64_t launch_ns = 10'000;
};

// Adds to a step of this profile's model (mixed or not) the exchange of a run
// with Sheaf, by the rules of bucket_rules.hpp and parcel_rules.hpp: an
// all-reduce for each bucket as soon as it and the buckets before it are
// complete, and a wait for all of them after backward. For layers that send
// factors, inputs are gathered after their product and deltas as backward
// computes them, combined into parcels; the products over the rows of all
// workers follow when everything is received. A step that already has
// collectives is returned unchanged. Throws UsageError if the trace does not
// record the model's parameters.
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options);
// For repeated calls: `layers` is the result of factor_layers().
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options,
                        const std::vector<FactorLayer>& layers);

// The exchange methods under precision plans: a layer whose weight is cast on
// any kind of worker cannot send factors and sends its gradient.
ExchangePlan routes_under(const ExchangePlan& routes, const ModelGraph& graph,
                          const std::vector<PrecisionPlan>& plans);

// Throws UsageError for layers that the model does not have, and for factors of
// a layer that is not a matrix product.
void check_routes(const ExchangePlan& routes, const StepProfile& profile);

// Bytes of each collective of the result: the buffer of an all-reduce (see
// half_exchange_bytes() for 16 bits), or the blocks of all workers of an
// all-gather.
std::vector<double> collective_bytes(const StepGraph& step);

}  // namespace sheaf::plan
