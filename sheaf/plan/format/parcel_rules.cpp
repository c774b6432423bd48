#include "sheaf/plan/format/parcel_rules.hpp"

#include <algorithm>

namespace sheaf::plan {
namespace {

constexpr double kNumberBytes = 8;

// A product has no more independent rows than either factor has rows or
// columns.
double low_rank_rows(const FactorShape& shape, int rank) {
  return std::min({static_cast<double>(rank), shape.rows, shape.in, shape.out});
}

Parcels fill_parcels(const std::vector<std::size_t>& order,
                     const std::vector<double>& bytes, double parcel_bytes) {
  Parcels list;
  double filled = parcel_bytes;
  for (const std::size_t item : order) {
    if (filled >= parcel_bytes) {
      list.emplace_back();
      filled = 0;
    }
    list.back().push_back(item);
    filled += bytes[item];
  }
  return list;
}

}  // namespace

double input_bytes(const FactorShape& shape) {
  return shape.rows * (shape.is_lookup ? kNumberBytes : shape.in * shape.width);
}

double delta_bytes(const FactorShape& shape) {
  return shape.rows * shape.out * shape.width;
}

double low_rank_bytes(const FactorShape& shape, int rank, bool has_bias) {
  return shape.width * (low_rank_rows(shape, rank) * (shape.in + shape.out) +
                        (has_bias ? shape.out : 0));
}

double low_rank_operations(const FactorShape& shape, int feedback_rows) {
  const double m = shape.rows + feedback_rows;
  return 2 * m * m * (shape.in + shape.out) + 3 * m * m * m;
}

double gradient_rows(Route route, const FactorShape& shape, int rank,
                     double all_rows, int ranks) {
  return route == Route::kRankDad ? ranks * low_rank_rows(shape, rank)
                                  : all_rows;
}

bool derives_deltas(Route route, std::optional<Route> above) {
  return route == Route::kEdad &&
         (above == Route::kDad || above == Route::kEdad);
}

ParcelPlan plan_parcels(const std::vector<ParcelItem>& items,
                        const std::vector<std::size_t>& order,
                        double parcel_bytes) {
  std::vector<double> inputs, deltas;
  for (const ParcelItem& item : items) {
    inputs.push_back(input_bytes(item.shape));
    deltas.push_back(delta_bytes(item.shape));
  }
  std::vector<std::size_t> early;
  for (const std::size_t item : order)
    if (items[item].route != Route::kRankDad) early.push_back(item);
  const std::vector<std::size_t> last_first(order.rbegin(), order.rend());
  return {fill_parcels(early, inputs, parcel_bytes),
          fill_parcels(last_first, deltas, parcel_bytes)};
}

std::vector<double> header_bytes(std::size_t parts) {
  std::vector<double> messages{kNumberBytes * kFirstHeaderNumbers};
  const std::size_t numbers =
      1 + kParcelHeaderNumbers + kPartHeaderNumbers * parts;
  if (numbers > kFirstHeaderNumbers)
    messages.push_back(kNumberBytes *
                       static_cast<double>(numbers - kFirstHeaderNumbers));
  return messages;
}

int parcel_messages(std::size_t parts, bool has_payload) {
  return static_cast<int>(header_bytes(parts).size()) + (has_payload ? 1 : 0);
}

}  // namespace sheaf::plan
