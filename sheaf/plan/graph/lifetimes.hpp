#pragma once
// Lifetimes of operator results under a plan. A result lives until the last
// operator that needs it has run; which operators need it for their backward
// pass depends on casts. All rules are learned from traces; no operator names
// are built in.

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
  // `profiles` are traces of one model; the first one defines the order of
  // work.
  explicit Lifetimes(const std::vector<const StepProfile*>& profiles);

  // The slot that owns the memory of a slot's result: views and in-place
  // operators have no memory of their own.
  std::int32_t root(std::size_t slot) const { return root_[slot]; }

  // The side (see step_profile.hpp) at whose end the result of a root is freed.
  std::size_t last_side(std::size_t root,
                        const std::vector<SlotTypes>& types) const;

  // Whether a slot works on a copy of this input and so does not keep it.
  bool lets_go(std::size_t slot, std::size_t input) const;

  // The allocation of this slot's result in a profile's memory.
  static std::optional<std::size_t> result_in(const StepProfile& profile,
                                              std::size_t slot);

 private:
  void find_roots(const StepProfile& profile);
  void learn(const StepProfile& profile);

  const ModelGraph* graph_ = nullptr;
  std::vector<std::int32_t> root_;                 // by slot
  std::vector<std::vector<std::size_t>> members_;  // slots, by root
  struct Use {
    std::size_t slot = 0;   // slot that uses the result
    std::size_t input = 0;  // as this input
    // It works on a copy: in a trace the result was freed before its backward
    // pass.
    bool lets_go = false;
  };
  // By root, by slots that are not its members.
  std::vector<std::vector<Use>> uses_;
  std::vector<std::int64_t> place_;     // order in time, by side
  std::vector<std::size_t> scope_end_;  // by root: forward side until which
                                        // the program holds the result
  std::set<std::string> keeps_result_;  // operators: until their backward pass
  // Operators: freed earlier in some trace.
  std::set<std::string> lets_result_go_;
  std::set<std::string> keeps_input_;
};

}  // namespace sheaf::plan
