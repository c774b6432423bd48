#include "sheaf/parallel/dad/step_model.hpp"

#include <algorithm>
#include <numeric>

namespace sheaf::parallel {
namespace {

// The messages of a parcel: header and bytes.
constexpr double kParcelMessages = 2;
// Additional cost of a pass with both gradients and factors, in message
// latencies: a bucket that waits for backward(), ending the exchange, and one
// more thread. With a value of 3, the chosen routes measured 10 to 20 % slower
// than rank-dad for all weights.
constexpr double kGradientMessages = 10;

double width_in(const ParameterUse& use) {
  return use.is_lookup ? 2. : static_cast<double>(use.in);
}
double width_out(const ParameterUse& use) {
  return static_cast<double>(use.out);
}

}  // namespace

// Time in seconds since the first product.
class StepModel::Timeline {
 public:
  explicit Timeline(bool is_overlapping) : is_overlapping_(is_overlapping) {}

  void compute(double seconds) { now_ += seconds; }
  // Returns the arrival time. Without overlap, messages are sent at the end.
  double send(double seconds) {
    if (!is_overlapping_) return waiting_ += seconds;
    link_ = std::max(link_, now_) + seconds;
    return link_;
  }
  void wait_for(double arrival) {
    if (is_overlapping_) {
      now_ = std::max(now_, arrival);
    } else if (arrival > done_) {
      now_ += arrival - done_;
      done_ = arrival;
    }
  }
  // The time when all messages have arrived.
  double end() {
    wait_for(is_overlapping_ ? link_ : waiting_);
    return now_;
  }

 private:
  const bool is_overlapping_;
  double now_ = 0;      // time of computation
  double link_ = 0;     // time when the link becomes free
  double waiting_ = 0;  // total time of messages without overlap
  double done_ = 0;
};

double StepModel::product_s(const ParameterUse& use, double rows) const {
  if (use.is_lookup) return 2 * rows * width_out(use) / link_.flops;
  // With few rows, the time to read the weight dominates.
  const double elements = width_in(use) * width_out(use);
  return 2 * rows * elements / link_.flops +
         elements * static_cast<double>(use.width) / link_.weight_bytes_per_s;
}

double StepModel::sent_part(double density) const {
  return skips_zeros_ ? std::min(1.0, density + 1. / 32) : 1;
}

double StepModel::inputs_bytes(const ParameterUse& use) const {
  return own_rows(use) * width_in(use) * static_cast<double>(use.width) *
         sent_part(use.density);
}

// Deltas are zero where the activation above has a zero output.
double StepModel::deltas_bytes(const ParameterUse& use) const {
  const double density =
      use.above >= 0 ? uses_[static_cast<std::size_t>(use.above)].density : 1;
  return own_rows(use) * width_out(use) * static_cast<double>(use.width) *
         sent_part(density);
}

double StepModel::gather_s(double own_bytes) const {
  return kParcelMessages * link_.latency_s +
         (link_.ranks - 1) * own_bytes / link_.gather_bytes_per_s +
         (skips_zeros_ ? own_bytes / link_.skip_bytes_per_s : 0);
}

double StepModel::reduce_s(const ParameterUse& use) const {
  return link_.latency_s + 2. * (link_.ranks - 1) / link_.ranks *
                               static_cast<double>(use.elements * use.width) /
                               link_.reduce_bytes_per_s;
}

// Computes an n x n matrix from each factor, and their decomposition.
double StepModel::low_rank_s(const ParameterUse& use) const {
  const double n = own_rows(use);
  return (2 * n * n * (width_in(use) + width_out(use)) + 3 * n * n * n) /
         link_.flops;
}

double StepModel::inputs_parcel_s(
    const std::vector<std::size_t>& weights) const {
  double bytes = 0;
  for (const std::size_t i : weights) bytes += inputs_bytes(uses_[i]);
  return gather_s(bytes);
}

double StepModel::deltas_parcel_s(
    const FactorPlan& plan, const std::vector<std::size_t>& weights) const {
  double bytes = 0;
  double reducing = 0;
  for (const std::size_t i : weights) {
    const ParameterUse& use = uses_[i];
    if (plan.routes[i] == Route::kDad) bytes += deltas_bytes(use);
    if (plan.routes[i] != Route::kRankDad) continue;
    bytes += std::min<double>(rank_, own_rows(use)) *
             (width_in(use) + width_out(use)) * static_cast<double>(use.width);
    reducing += low_rank_s(use);
  }
  return gather_s(bytes) + reducing;
}

// edad repeats the product of the layer above, with the rows of all ranks.
double StepModel::gradient_s(const FactorPlan& plan, std::size_t weight) const {
  const ParameterUse& use = uses_[weight];
  const auto rows = static_cast<double>(use.rows);
  if (plan.routes[weight] == Route::kRankDad)
    return product_s(use, link_.ranks * std::min<double>(rank_, own_rows(use)));
  if (plan.routes[weight] != Route::kEdad) return product_s(use, rows);
  return product_s(use, rows) +
         product_s(uses_[static_cast<std::size_t>(use.above)], rows);
}

double StepModel::step_ms(const FactorPlan& plan) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i].rows > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return uses_[a].order < uses_[b].order;
  });
  Timeline time(link_.is_overlapping);
  std::size_t parcel = 0;
  for (const std::size_t i : order) {
    time.compute(product_s(uses_[i], own_rows(uses_[i])));
    if (parcel < plan.forward.size() && plan.forward[parcel].back() == i)
      time.send(inputs_parcel_s(plan.forward[parcel++]));
  }
  std::vector<double> arrivals;
  bool has_gradients = false;
  const auto send_deltas = [&] {
    const auto& weights = plan.backward[arrivals.size()];
    arrivals.push_back(time.send(deltas_parcel_s(plan, weights)));
  };
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    const ParameterUse& use = uses_[*i];
    if (plan.routes[*i] == Route::kGradient) {
      time.compute(product_s(use, own_rows(use)));
      time.send(reduce_s(use));
      has_gradients = true;
    } else if (arrivals.size() + 1 < plan.backward.size() &&
               plan.backward[arrivals.size()].back() == *i) {
      send_deltas();
    }
    if (!use.takes_data) time.compute(product_s(use, own_rows(use)));
  }
  while (arrivals.size() < plan.backward.size()) send_deltas();
  if (has_gradients) time.send(kGradientMessages * link_.latency_s);
  for (std::size_t p = 0; p < arrivals.size(); ++p) {
    time.wait_for(arrivals[p]);
    for (const std::size_t weight : plan.backward[p])
      time.compute(gradient_s(plan, weight));
  }
  return 1e3 * time.end();
}

}  // namespace sheaf::parallel
