#pragma once
// How long the results of operators live under a plan: until the last one has
// run that needs them, and who needs them for its backward pass depends on
// casts. Learnt from traces; nothing is known by name.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/type_flow.hpp"

namespace sheaf::plan {

class Lifetimes {
 public:
  Lifetimes() = default;
  // Traces of one model; the first tells in which order things happen.
  explicit Lifetimes(const std::vector<const StepProfile*>& profiles);

  // The slot whose memory a slot's result is in: views and what works in place
  // have none of their own.
  std::int32_t root(std::size_t slot) const { return root_[slot]; }

  // The side (step_profile.hpp) at whose end the result of a root is given
  // back.
  std::size_t last_side(std::size_t root,
                        const std::vector<SlotTypes>& types) const;

  // Whether a slot works on a copy of this input, and so does not keep it.
  bool lets_go(std::size_t slot, std::size_t input) const;

  // In a profile's memory: the result of this slot.
  static std::optional<std::size_t> result_in(const StepProfile& profile,
                                              std::size_t slot);

 private:
  void find_roots(const StepProfile& profile);
  void learn(const StepProfile& profile);

  const ModelGraph* graph_ = nullptr;
  std::vector<std::int32_t> root_;                 // by slot
  std::vector<std::vector<std::size_t>> members_;  // slots, by root
  struct Use {
    std::size_t slot = 0;   // that takes
    std::size_t input = 0;  // this one of its inputs
    // It works on a copy: in a trace the result died before its backward pass.
    bool lets_go = false;
  };
  std::vector<std::vector<Use>> uses_;  // by root, from outside its members
  std::vector<std::int64_t> place_;     // in time, by side
  std::vector<std::size_t> scope_end_;  // by root: a side forward, as programs
                                        // keep what they have named
  std::set<std::string> keeps_result_;  // operators, until their backward pass
  std::set<std::string> lets_result_go_;  // once, so they do not need it
  std::set<std::string> keeps_input_;
};

}  // namespace sheaf::plan
