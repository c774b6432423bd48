#pragma once
// The options of DadParallel.

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf {
class TraceWriter;  // base/trace.hpp
}

namespace sheaf::parallel {

class BucketExchange;  // data/bucket_exchange.hpp

// What is exchanged; see docs/explanation/dad.md.
enum class DadMode { kDad, kEdad, kRankDad, kAuto };

// The form in which a parameter's gradient is exchanged.
enum class Route : std::int64_t { kGradient, kDad, kEdad, kRankDad };
const char* name_of(Route route);

// How factors reach the other ranks.
enum class Where {
  kAllGather,
  kStar,  // through rank 0, for hosts that can only reach rank 0
};

enum class Average {
  // Ranks are weighted by rows; a rank's loss is the mean over its rows.
  kRows,
  kRanks,  // all ranks have equal weight
};

// The costs of communication and computation.
struct LinkModel {
  int ranks = 2;
  double latency_s = 20e-6;  // of one collective
  // Rate of factors received by one rank, copies included, and of gradients
  // sent and received by one rank. Within a host these two differ widely.
  double gather_bytes_per_s = 1e9;
  double reduce_bytes_per_s = 1e9;
  double skip_bytes_per_s = 1e9;     // encoding matrices without their zeros
  double flops = 20e9;               // of one rank
  double weight_bytes_per_s = 1e10;  // weights read or written by a product
  bool is_overlapping = true;        // communication overlaps computation
};

// The routes chosen by auto, which depend on measured times. They are saved, so
// that another run can reuse them.
struct FixedRoutes {
  std::map<std::string, Route> by_name;  // all trained parameters
  bool skips_zeros = false;

  bool empty() const { return by_name.empty(); }
};

// Statistics of one weight in the last pass.
struct FactorStats {
  std::int64_t rows = 0;      // over all ranks
  std::int64_t own_rows = 0;  // on this rank; for rank-dad, the rank
  std::int64_t sent = 0;      // bytes of this rank's factors
  std::int64_t received = 0;  // bytes of the other ranks' factors
  double exchange_ms = 0;     // time of its parcels, by share of bytes
  double gradient_ms = 0;
};

struct DadOptions {
  DadMode mode = DadMode::kDad;
  int rank = 4;          // rank-dad: maximum number of rows of the factors
  double tolerance = 0;  // rank-dad: uses fewer rows if the rest is small
  int feedback_rows = plan::kFeedbackRows;
  int power_iterations = 0;      // rank-dad as in dad_torch; 0: exact factors
  bool allows_low_rank = false;  // auto may choose rank-dad
  Where where = Where::kAllGather;
  // rank-dad with kStar: the root also reduces the sum to this rank before
  // sending it back.
  bool is_two_way = false;
  std::optional<at::ScalarType> wire = {};  // send as f16 or bf16
  // Omits zeros, such as those of ReLU, from messages; unset: if it saves
  // time.
  std::optional<bool> skips_zeros = {};
  bool first_layer_gradient = false;         // raw data never leaves the rank
  std::map<std::string, Route> routes = {};  // by parameter name
  // Routes from a plan; `routes` and `first_layer_gradient` override them.
  std::map<std::string, Route> planned = {};
  std::optional<LinkModel> link = {};  // unset: it is measured
  // auto: tries plans with similar predicted times in the first steps. Unset:
  // only if `link` is not given. The error feedback of low-rank factors is
  // dropped when the plan changes.
  std::optional<bool> has_trials = {};
  Average average = Average::kRows;
  // Factors of several layers share a message up to this size.
  double parcel_bytes = plan::kParcelBytes;

  // The options of DataParallelOptions, which documents them. Those of buckets
  // and `exchange` apply to parameters on the gradient route.
  double bucket_mb = 25;
  double first_bucket_mb = 1;
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
  bool static_graph = false;
  Overlap overlap = Overlap::kAuto;
  std::optional<torch::Device> device = {};
  std::shared_ptr<BucketExchange> exchange = {};
  TraceWriter* trace = nullptr;
  std::vector<at::Tensor> kept = {};
};

}  // namespace sheaf::parallel
