#include "sheaf/parallel/data/common_options.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {

ReducerOptions reducer_options(const DataParallelOptions& options) {
  SHEAF_CHECK(options.bucket_mb > 0 && options.first_bucket_mb > 0,
              "bucket_mb ", options.bucket_mb, " and first_bucket_mb ",
              options.first_bucket_mb, " must be above 0");
  constexpr double kMiB = 1 << 20;
  return {.caps = {static_cast<std::size_t>(options.first_bucket_mb * kMiB),
                   static_cast<std::size_t>(options.bucket_mb * kMiB)},
          .find_unused_parameters = options.find_unused_parameters,
          .static_graph = options.static_graph,
          .overlap = options.overlap,
          .exchange = options.exchange,
          .trace = options.trace};
}

std::vector<NamedOption> named(const DataParallelOptions& options) {
  return {
      {"bucket_mb", concat(options.bucket_mb)},
      {"first_bucket_mb", concat(options.first_bucket_mb)},
      {"broadcast_buffers", concat(options.broadcast_buffers)},
      {"find_unused_parameters", concat(options.find_unused_parameters)},
      {"static_graph", concat(options.static_graph)},
      {"exchange", options.exchange ? "given" : "none"},
  };
}

bool is_kept(const DataParallelOptions& options, const at::Tensor& parameter) {
  return std::any_of(
      options.kept.begin(), options.kept.end(),
      [&](const at::Tensor& one) { return one.is_same(parameter); });
}

void add_kept(const DataParallelOptions& options,
              const torch::nn::Module& module, std::vector<NamedOption>& list) {
  for (const auto& item : module.named_parameters())
    if (is_kept(options, item.value())) list.emplace_back("kept", item.key());
}

}  // namespace sheaf::parallel
