#pragma once
// The options of DadParallel, and the settings derived from them.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/overlap.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"

namespace sheaf::parallel {

enum class Average {
  // Ranks are weighted by rows; a rank's loss is the mean over its rows.
  kRows,
  kRanks,  // all ranks have equal weight
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
  // For parameters on the gradient route; null: no compression.
  std::shared_ptr<BucketExchange> exchange = {};
  std::optional<LinkModel> link = {};  // unset: it is measured
  // auto: tries plans with similar predicted times in the first steps. Unset:
  // only if `link` is not given. The error feedback of low-rank factors is
  // dropped when the plan changes.
  std::optional<bool> has_trials = {};
  Average average = Average::kRows;
  bool broadcast_buffers = true;
  bool find_unused_parameters = true;  // on the gradient route
  double bucket_mb = 25;
  // Factors of several layers share a message up to this size.
  double parcel_bytes = plan::kParcelBytes;
  Overlap overlap = Overlap::kAuto;
  // Not owned; must outlive the model.
  TraceWriter* trace = nullptr;
};

// Throws UsageError for invalid values or combinations.
void check(const DadOptions& options);

// The options that determine what ranks exchange and how it is decoded.
std::vector<NamedOption> named(const DadOptions& options);

// Whether omitting zeros saves time on this link, unless the user has decided.
bool skips_zeros(const DadOptions& options, const LinkModel& link);
RouteWishes wishes_of(const DadOptions& options, bool skips_zeros);
FactorOptions factor_options(const DadOptions& options, bool skips_zeros);
ReducerOptions reducer_options(const DadOptions& options);

}  // namespace sheaf::parallel
