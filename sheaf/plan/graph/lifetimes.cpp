#include "sheaf/plan/graph/lifetimes.hpp"

#include <algorithm>
#include <cmath>

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Allocators round sizes up.
constexpr double kRounding = 1.13;
constexpr double kRoundingBytes = 1024;

bool is_own_forward(const StepProfile& profile, std::int32_t part, At slot) {
  if (part < 0) return false;
  const Part& one = profile.parts[static_cast<At>(part)];
  return !one.is_backward && one.cast == kNone &&
         one.slot == static_cast<std::int32_t>(slot);
}

bool has_cast(const StepProfile& profile, At slot, At input) {
  return std::any_of(profile.parts.begin(), profile.parts.end(),
                     [&](const Part& part) {
                       return part.slot == static_cast<std::int32_t>(slot) &&
                              part.cast == static_cast<std::int32_t>(input);
                     });
}

}  // namespace

std::optional<std::size_t> Lifetimes::result_in(const StepProfile& profile,
                                                std::size_t slot) {
  const Slot& one = profile.graph.slots[slot];
  if (!one.type) return std::nullopt;
  const double bytes = elements_of(one.out_shape) * bytes_of(*one.type);
  for (At i = profile.memory.size(); i-- > 0;) {
    const Allocation& memory = profile.memory[i];
    const auto size = static_cast<double>(memory.bytes);
    if (is_own_forward(profile, memory.born, slot) &&
        memory.died != memory.born && size >= bytes &&
        size <= bytes * kRounding + kRoundingBytes)
      return i;
  }
  return std::nullopt;
}

Lifetimes::Lifetimes(const std::vector<const StepProfile*>& profiles) {
  const StepProfile& base = *profiles[0];
  graph_ = &base.graph;
  place_.assign(2 * graph_->slots.size(), -1);
  for (At i = 0; i < base.parts.size(); ++i)
    if (std::int64_t& place = place_[side_of(base.parts[i])]; place < 0)
      place = static_cast<std::int64_t>(i);
  find_roots(base);
  for (const StepProfile* profile : profiles) learn(*profile);
}

void Lifetimes::find_roots(const StepProfile& profile) {
  const auto& slots = graph_->slots;
  members_.resize(slots.size());
  uses_.resize(slots.size());
  for (At i = 0; i < slots.size(); ++i) {
    const bool is_view =
        !slots[i].inputs.empty() && !result_in(profile, i).has_value();
    root_.push_back(is_view ? root_[static_cast<At>(slots[i].inputs[0].slot)]
                            : static_cast<std::int32_t>(i));
    members_[static_cast<At>(root_[i])].push_back(i);
    for (At k = 0; k < slots[i].inputs.size(); ++k) {
      const auto from =
          static_cast<At>(root_[static_cast<At>(slots[i].inputs[k].slot)]);
      if (static_cast<std::int32_t>(from) != root_[i])
        uses_[from].push_back({i, k});
    }
  }
  for (At i = 0; i < slots.size(); ++i) scope_end_.push_back(2 * i);
}

// Determines which operator held a result until its backward pass: the producer
// or one of its users.
void Lifetimes::learn(const StepProfile& profile) {
  for (At i = 0; i < root_.size(); ++i) {
    const auto found = result_in(profile, i);
    if (!found || profile.memory[*found].died < 0) continue;
    const Part& died =
        profile.parts[static_cast<At>(profile.memory[*found].died)];
    const auto by = static_cast<At>(died.slot);
    if (!died.is_backward) {
      for (const At member : members_[i])
        lets_result_go_.insert(graph_->slots[member].op);
      if (place_[2 * by] > place_[scope_end_[i]]) scope_end_[i] = 2 * by;
      for (Use& use : uses_[i])
        use.lets_go |= !has_cast(profile, use.slot, use.input);
      continue;
    }
    const std::string& op = graph_->slots[by].op;
    if (root_[by] == static_cast<std::int32_t>(i))
      keeps_result_.insert(op);
    else if (std::any_of(uses_[i].begin(), uses_[i].end(),
                         [&](const Use& use) { return use.slot == by; }))
      keeps_input_.insert(op);
  }
}

bool Lifetimes::lets_go(std::size_t slot, std::size_t input) const {
  const auto from = graph_->slots[slot].inputs[input].slot;
  const auto& uses = uses_[static_cast<At>(root_[static_cast<At>(from)])];
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.slot == slot && use.input == input && use.lets_go;
  });
}

std::size_t Lifetimes::last_side(std::size_t root,
                                 const std::vector<SlotTypes>& types) const {
  At last = scope_end_[root];
  const auto hold = [&](At side) {
    if (place_[side] > place_[last]) last = side;
  };
  for (const At member : members_[root]) {
    hold(2 * member);
    const std::string& op = graph_->slots[member].op;
    if (keeps_result_.contains(op) && !lets_result_go_.contains(op))
      hold(2 * member + 1);
  }
  for (const Use& use : uses_[root]) {
    hold(2 * use.slot);
    const Slot& user = graph_->slots[use.slot];
    const bool keeps = !user.layer.empty() || keeps_input_.contains(user.op);
    if (keeps && !use.lets_go && !types[use.slot].casts[use.input].is_needed)
      hold(2 * use.slot + 1);
  }
  return last;
}

}  // namespace sheaf::plan
