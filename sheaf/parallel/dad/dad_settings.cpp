#include "sheaf/parallel/dad/dad_settings.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/data/common_options.hpp"

namespace sheaf::parallel {
namespace {

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? concat(*value) : "unset";
}

std::string text_of(const std::map<std::string, Route>& routes) {
  std::string text;
  for (const auto& [name, route] : routes)
    text += concat(text.empty() ? "" : ", ", name, ": ", name_of(route));
  return text.empty() ? "none" : text;
}

}  // namespace

void check(const DadOptions& options) {
  SHEAF_CHECK(options.rank >= 1, "rank ", options.rank, " must be at least 1");
  SHEAF_CHECK(options.tolerance >= 0 && options.tolerance < 1, "tolerance ",
              options.tolerance, " must be at least 0 and below 1");
  SHEAF_CHECK(options.feedback_rows >= 0 && options.power_iterations >= 0,
              "feedback_rows and power_iterations must not be negative");
  SHEAF_CHECK(!options.is_two_way || options.where == Where::kStar,
              "two-way rank-dad needs a root that reduces the sum to low rank; "
              "set where = star as well");
  SHEAF_CHECK(!options.wire || *options.wire == at::kHalf ||
                  *options.wire == at::kBFloat16,
              "factors can be sent as f16, as bf16 or unchanged");
  static_cast<void>(reducer_options(options));  // checks the sizes of buckets
}

std::vector<NamedOption> named(const DadOptions& options) {
  constexpr const char* kModes[] = {"dad", "edad", "rank-dad", "auto"};
  std::vector<NamedOption> list = named(common_options(options));
  const std::vector<NamedOption> own{
      {"mode", kModes[static_cast<std::size_t>(options.mode)]},
      {"rank", concat(options.rank)},
      {"tolerance", concat(options.tolerance)},
      {"feedback_rows", concat(options.feedback_rows)},
      {"power_iterations", concat(options.power_iterations)},
      {"allows_low_rank", concat(options.allows_low_rank)},
      {"where", options.where == Where::kStar ? "star" : "all-gather"},
      {"is_two_way", concat(options.is_two_way)},
      {"wire", text_of(options.wire)},
      {"skips_zeros", text_of(options.skips_zeros)},
      {"first_layer_gradient", concat(options.first_layer_gradient)},
      {"routes", text_of(options.routes)},
      {"planned", text_of(options.planned)},
      {"link", options.link ? "given" : "measured"},
      {"has_trials", text_of(options.has_trials)},
      {"average", options.average == Average::kRows ? "rows" : "ranks"},
      {"parcel_bytes", concat(options.parcel_bytes)},
  };
  list.insert(list.begin(), own.begin(), own.end());
  return list;
}

// Estimate: half of the bytes are saved, as if half of the elements were zeros.
bool skips_zeros(const DadOptions& options, const LinkModel& link) {
  return options.skips_zeros.value_or(0.5 / link.gather_bytes_per_s >
                                      1 / link.skip_bytes_per_s);
}

RouteSettings route_settings(const DadOptions& options, bool skips_zeros) {
  return {.mode = options.mode,
          .rank = options.rank,
          .feedback_rows = options.feedback_rows,
          .allows_low_rank = options.allows_low_rank,
          .skips_zeros = skips_zeros,
          .first_layer_gradient = options.first_layer_gradient,
          .by_name = options.routes,
          .planned = options.planned,
          .parcel_bytes = options.parcel_bytes};
}

FactorOptions factor_options(const DadOptions& options, bool skips_zeros) {
  return {
      .exchange = {.where = options.where,
                   .wire = {options.wire, skips_zeros},
                   .low_rank = {.rank = options.rank,
                                .tolerance = options.tolerance,
                                .feedback_rows = options.feedback_rows,
                                .power_iterations = options.power_iterations},
                   .is_two_way = options.is_two_way},
      .overlap = options.overlap,
      .trace = options.trace};
}

// A first bucket is never larger than the others.
ReducerOptions reducer_options(const DadOptions& options) {
  DataParallelOptions common = common_options(options);
  common.first_bucket_mb = std::min(common.first_bucket_mb, common.bucket_mb);
  return reducer_options(common);
}

}  // namespace sheaf::parallel
