#pragma once
// Plans that the first steps are made with in turns, to see which is fastest:
// a prediction cannot tell what differs by a tenth.

#include <cstddef>
#include <vector>

namespace sheaf::parallel {

class PlanTrials {
 public:
  PlanTrials() = default;  // over before it begins
  // The first plan is kept unless another is clearly faster.
  explicit PlanTrials(std::size_t plans) : best_ms_(plans) {}

  bool is_over() const { return turn_ >= kRounds * best_ms_.size(); }
  // The plan whose turn it is.
  std::size_t plan() const { return turn_ % best_ms_.size(); }

  // One pass with that plan.
  void add(double ms);
  bool is_turn_over() const { return passes_ >= kPasses; }
  void next_turn();
  void give_up() { turn_ = kRounds * best_ms_.size(); }

  // The shortest pass of each, this rank's; 0: none has been measured.
  const std::vector<double>& best_ms() const { return best_ms_; }

 private:
  // Two rounds, for machines that are busy now and then; the first pass of a
  // turn finds cold memory.
  static constexpr std::size_t kRounds = 2;
  static constexpr int kPasses = 3;

  std::vector<double> best_ms_;
  std::size_t turn_ = 0;
  int passes_ = 0;
};

// The plan to keep, from the times of all plans.
std::size_t fastest_plan(const std::vector<double>& ms);

}  // namespace sheaf::parallel
