#pragma once
// Predicts the time of a step for a choice of routes, with a timeline of two
// concurrent resources: this rank's computation and its link.

#include <vector>

#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/parallel/dad/parameter_use.hpp"

namespace sheaf::parallel {

class StepModel {
 public:
  // `uses` and `link` must outlive this object. `rank` is the rank of rank-dad,
  // `feedback_rows` the number of rows that it keeps for the next pass.
  StepModel(const std::vector<ParameterUse>& uses, const LinkModel& link,
            int rank, bool skips_zeros, int feedback_rows = plan::kFeedbackRows)
      : uses_(uses),
        link_(link),
        rank_(rank),
        skips_zeros_(skips_zeros),
        feedback_rows_(feedback_rows) {}

  // The predicted time from the first product to the last gradient.
  double step_ms(const FactorPlan& plan) const;

 private:
  class Timeline;
  double product_s(const ParameterUse& use, double rows) const;
  plan::FactorShape own_shape(const ParameterUse& use) const {
    return shape_of(use, link_.ranks);
  }
  bool derives_deltas(const FactorPlan& plan, std::size_t weight) const;
  double gather_s(std::size_t weights, double own_bytes) const;
  double reduce_s(const ParameterUse& use) const;
  double low_rank_s(const ParameterUse& use) const;
  double gradient_s(const FactorPlan& plan, std::size_t weight) const;
  double inputs_bytes(const ParameterUse& use) const;
  double deltas_bytes(const ParameterUse& use) const;
  double inputs_parcel_s(const std::vector<std::size_t>& weights) const;
  double deltas_parcel_s(const FactorPlan& plan,
                         const std::vector<std::size_t>& weights) const;
  double sent_part(double density) const;
  double own_rows(const ParameterUse& use) const {
    return static_cast<double>(use.rows) / link_.ranks;
  }

  const std::vector<ParameterUse>& uses_;
  const LinkModel& link_;
  const int rank_;
  const bool skips_zeros_;
  const int feedback_rows_;
};

}  // namespace sheaf::parallel
