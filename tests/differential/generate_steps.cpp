// Generates steps and the events in them.

#include <algorithm>
#include <set>

#include "generate.hpp"

namespace differential {
namespace {

constexpr std::int64_t kOverlapOn = 1;  // value of parallel::Overlap
constexpr std::int64_t kOverlapOff = 2;

bool has_block(const Case& one, const std::string& kind) {
  return std::any_of(one.blocks.begin(), one.blocks.end(),
                     [&](const Item& item) { return item.kind == kind; });
}

bool has_value(const Case& one, const std::string& key) {
  return std::any_of(one.blocks.begin(), one.blocks.end(),
                     [&](const Item& item) { return item.has(key); });
}

class StepMaker {
 public:
  StepMaker(Case& one, Dice& dice) : case_(one), dice_(dice) {}

  void choose_setting() {
    Item& s = case_.setting;
    const bool is_plain = s.kind == "data" && !s.has("f32");
    if (dice_.one_in(12) && s.kind != "spatial") s.set("models", 2);
    if (is_plain && s.get("exchange") != 3 && dice_.one_in(12))
      s.set("join", 1).set("active_only", dice_.in(0, 1));
    const std::int64_t last = dice_.in(0, case_.ranks() - 1);
    if (s.has("join"))
      for (int unit = 0; unit < case_.ranks(); ++unit)
        s.set("ends_early" + std::to_string(unit),
              unit == last ? 0 : dice_.in(0, 2));
    if (has_value(case_, "keep"))
      s.set("penalty", dice_.one_of({100, 1000, 10000, 300000}));
    // Tensors that are not outputs of forward() are not weighted by rows.
    if (has_value(case_, "keep") && s.kind != "data" && s.kind != "spatial")
      s.set("average_ranks", 1);
    if (s.kind == "data" && !s.has("find_unused") && !s.has("join") &&
        !has_block(case_, "rare") && dice_.one_in(6))
      s.set("static_graph", 1);
    if (has_block(case_, "batch_norm") && s.kind != "spatial" &&
        !s.has("f32") && !s.has("join") && !s.has("exchange") &&
        dice_.one_in(3))
      s.set("sync_batch_norm", 1).set("keeps_buffers", 1);
    repeats_ = s.kind == "rank-dad" && !s.has("two_way") && is_by_rows() &&
               !dice_.one_in(4);
    if (repeats_) s.set("rank", 4).set("feedback", 16);
  }

  void add_step() {
    Item step{"step"};
    choose_rows(step);
    step.set("zero", dice_.one_in(3));
    if (case_.setting.has("join") && case_.setting.has("models"))
      step.set("joint", dice_.in(0, 1));
    if (case_.setting.has("join") && !case_.setting.has("exchange"))
      step.set("more_passes", dice_.one_in(4));
    if (!has_value(case_, "sparse") && !case_.setting.has("sync_batch_norm"))
      step.set("given", dice_.one_in(8));
    if (!case_.setting.has("join")) choose_event(step);
    if (!case_.setting.has("join") && dice_.one_in(4)) choose_event(step);
    // Both graphs are in one exchange, whose factors have four rows.
    if (repeats_ && step.has("joint") && step.has("two_graphs"))
      step.set("distinct", std::min<std::int64_t>(2, step.get("distinct")));
    case_.steps.push_back(step);
  }

  // The gradient of a single row has rank 1, which may be below PowerSGD's
  // rank. Only in the last step: the next one would start with directions that
  // are rounding errors.
  void add_low_rank() {
    Item& last = case_.steps.back();
    if (case_.setting.get("exchange") != 3 || last.has("more_passes") ||
        !dice_.one_in(4))
      return;
    for (int unit = 0; unit < unit_count(case_); ++unit)
      last.set("rows" + std::to_string(unit), unit == 0 ? 1 : 0);
  }

 private:
  // Whether equal rows stay equal and each weight is used in one product: the
  // gradients of few distinct rows then have a low rank.
  bool is_by_rows() const {
    static const std::set<std::string> kKinds{"linear", "act", "norm", "scale",
                                              "positions"};
    return !case_.setting.has("input") && !has_value(case_, "twice") &&
           std::all_of(
               case_.blocks.begin(), case_.blocks.end(),
               [](const Item& item) { return kKinds.count(item.kind) > 0; });
  }

  void choose_rows(Item& step) {
    std::int64_t least = has_block(case_, "batch_norm") ? 2 : 1;
    if (case_.setting.get("exchange") == 3) least = 2;
    const bool may_be_empty = least == 1 && !has_block(case_, "recurrent") &&
                              case_.setting.kind != "spatial" &&
                              case_.setting.kind != "plan";
    const std::int64_t even = dice_.in(least, 4);
    const bool is_even = dice_.one_in(2);
    std::int64_t total = 0;
    for (int unit = 0; unit < unit_count(case_); ++unit) {
      std::int64_t rows = is_even ? even : dice_.in(least, 5);
      if (repeats_) rows = dice_.in(5, 16);
      if (may_be_empty && dice_.one_in(10)) rows = 0;
      if (unit + 1 == unit_count(case_) && total + rows == 0) rows = 1;
      total += rows;
      step.set("rows" + std::to_string(unit), rows);
    }
    if (repeats_) step.set("distinct", dice_.in(1, 3));
  }

  std::int64_t some_block() {
    return dice_.in(1, static_cast<std::int64_t>(case_.blocks.size()));
  }

  const Item& block(std::int64_t number) const {
    return case_.blocks[static_cast<std::size_t>(number - 1)];
  }

  // A random block with parameters.
  std::int64_t some_layer() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const std::int64_t number = some_block();
      if (has_parameters(block(number))) return number;
    }
    return 1;
  }

  // Factors are sent during forward() on ranks that use all layers, and buckets
  // during backward(): an exception at that point leads to a documented error.
  bool may_throw_in_backward() const {
    const std::int64_t overlap = case_.setting.get("overlap");
    return !has_block(case_, "rare") || overlap == kOverlapOff;
  }

  // The hook that throws is on an output or on a parameter. With a grid, the
  // output is not split, and gradients are not sent before the end of backward;
  // those of parameters arrive in another order on ranks without a tile.
  void throw_in_backward(Item& step) {
    const bool is_split = case_.setting.kind == "spatial";
    if (is_split && case_.setting.get("overlap") == kOverlapOff &&
        dice_.one_in(2)) {
      step.set("throw_parameter", some_layer());
    } else if (is_split) {
      const std::string& last = case_.blocks.back().kind;
      if (last == "linear" || last == "mean")
        step.set("throw_backward",
                 static_cast<std::int64_t>(case_.blocks.size()));
    } else if (dice_.one_in(3)) {
      // Ranks that do not use a parameter have no gradient for it.
      const std::int64_t number = some_layer();
      if (block(number).kind != "rare") step.set("throw_parameter", number);
    } else {
      // Only for the last block, all ranks certainly have a gradient if any
      // has.
      step.set("throw_backward",
               has_block(case_, "rare")
                   ? static_cast<std::int64_t>(case_.blocks.size())
                   : some_block());
    }
  }

  // A second graph exists while the first one is used. Each of its passes is
  // rounded, which the reference does not model. libtorch itself does not
  // support it if forward() changes buffers.
  bool may_have_two_graphs() const {
    return !case_.setting.has("exchange") && !case_.setting.has("f32") &&
           !has_block(case_, "batch_norm");
  }

  bool may_free() const {
    const Item& s = case_.setting;
    return (s.kind != "data" || s.has("find_unused")) &&
           s.get("exchange") != 3 && s.kind != "spatial" && s.kind != "plan";
  }

  std::int64_t frozen_block() const {
    for (std::size_t i = 0; i < case_.blocks.size(); ++i)
      if (case_.blocks[i].has("frozen"))
        return static_cast<std::int64_t>(i) + 1;
    return 0;
  }

  // libtorch 1.13 bypasses hooks on an input when gradients with respect to it
  // are requested. With ranks weighted by rows, the module's input is a copy
  // (docs/explanation/dad.md).
  bool has_hook_on_input() const {
    return std::any_of(case_.blocks.begin(), case_.blocks.end(),
                       [](const Item& one) {
                         return one.kind == "unused" && one.has("hook");
                       });
  }

  bool may_penalize() const {
    const Item& s = case_.setting;
    if (has_hook_on_input()) return false;
    return s.get("input") != 2 && !s.has("f32") && s.get("exchange") != 3 &&
           !has_value(case_, "checkpoint") && !has_value(case_, "frozen");
  }

  // Whether the input of a forward may depend on the output of another.
  bool may_chain() const {
    const Item& s = case_.setting;
    return s.kind != "spatial" && s.kind != "plan" && s.get("input") != 2 &&
           !s.has("f32") && !s.has("autocast");
  }

  void choose_event(Item& step) {
    const bool is_spatial = case_.setting.kind == "spatial";
    // With normalization over all ranks, the reference processes all rows at
    // once.
    switch (case_.setting.has("sync_batch_norm") ? dice_.in(0, 3)
                                                 : dice_.in(0, 22)) {
      case 0:
      case 1:
        if (!repeats_) step.set("no_sync", dice_.in(1, 2));
        break;
      case 2:
        step.set("more_passes", 1);
        break;
      case 3:
        step.set("evaluate", 1);
        break;
      case 4:
        step.set("forward_only", 1);
        break;
      case 5:
        if (case_.setting.kind != "plan") step.set("to", 1);
        break;
      case 6:
        if (may_free() && case_.blocks.size() > 2)
          step.set("freeze", some_block());
        break;
      case 7:
      case 8:
        if (!case_.steps.empty() && may_free())
          step.set("unfreeze", frozen_block());
        break;
      case 9:
        step.set("throw_forward", some_block());
        break;
      case 10:
      case 11:
        if (!may_throw_in_backward()) break;
        throw_in_backward(step);
        step.set("retry", dice_.one_in(2));
        break;
      case 12:
        // Each of its passes is rounded, which the reference does not model.
        if (!case_.setting.has("exchange")) step.set("retain", 1);
        break;
      case 13:
        if (may_penalize() && (!is_spatial || dice_.one_in(5)))
          step.set("gradient_penalty", 1);
        break;
      case 14:
        if (!repeats_ &&
            !(case_.setting.has("exchange") && has_value(case_, "checkpoint")))
          step.set("two_forwards", may_chain() && dice_.one_in(2) ? 2 : 1);
        break;
      case 15:
        if (case_.setting.has("models")) step.set("joint", 1);
        break;
      case 16:
        if (case_.setting.kind == "data") step.set("not_finite", 1);
        break;
      case 17:
      case 18:
        if (may_have_two_graphs()) step.set("two_graphs", dice_.in(1, 2));
        break;
      case 19:
        // A documented error for most networks under dAD.
        if (may_free() && case_.blocks.size() > 2 && !repeats_ &&
            (case_.setting.kind == "data" || dice_.one_in(8)))
          step.set("no_sync", dice_.in(1, 2)).set("freeze_late", some_layer());
        break;
      default:
        break;
    }
  }

  Case& case_;
  Dice& dice_;
  bool repeats_ = false;
};

}  // namespace

void add_steps(Case& one, Dice& dice) {
  StepMaker maker(one, dice);
  maker.choose_setting();
  const bool is_small = one.setting.kind == "spatial";
  for (std::int64_t i = dice.in(1, is_small ? 2 : 4); i > 0; --i)
    maker.add_step();
  // In half of the cases, a parameter that is frozen at the start is unfrozen.
  maker.add_low_rank();
  if (one.setting.has("trials"))
    while (one.steps.size() < 14) maker.add_step();
}

}  // namespace differential
