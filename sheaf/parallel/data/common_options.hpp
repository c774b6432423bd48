#pragma once
// The options that all wrappers have, DataParallelOptions: derived settings and
// checks. Internal to the wrappers.

#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// The common options of another wrapper. Compiles only if it has all of them.
template <class Options>
DataParallelOptions common_options(const Options& options) {
  return {.bucket_mb = options.bucket_mb,
          .first_bucket_mb = options.first_bucket_mb,
          .broadcast_buffers = options.broadcast_buffers,
          .find_unused_parameters = options.find_unused_parameters,
          .static_graph = options.static_graph,
          .overlap = options.overlap,
          .device = options.device,
          .exchange = options.exchange,
          .trace = options.trace,
          .kept = options.kept};
}

// Throws UsageError for invalid values.
ReducerOptions reducer_options(const DataParallelOptions& options);

// The options that determine what ranks exchange and when a pass is an error.
// Devices may differ between ranks.
std::vector<NamedOption> named(const DataParallelOptions& options);

// Whether the parameter is one of `kept`.
bool is_kept(const DataParallelOptions& options, const at::Tensor& parameter);
// Adds the names of the kept parameters of the module to the list.
void add_kept(const DataParallelOptions& options,
              const torch::nn::Module& module, std::vector<NamedOption>& list);

}  // namespace sheaf::parallel
