// Networks on rows and sequences for data parallelism and dAD, and small ones
// for autocast and precision plans.

#include "generate.hpp"
#include "plain/network.hpp"

namespace differential {
namespace {

// Adds blocks and tracks the shape of their outputs.
class Builder {
 public:
  Builder(Case& one, Dice& dice) : case_(one), dice_(dice) {
    shape_ = input_shape(one);
  }

  const Shape& shape() const { return shape_; }
  Item& add(Item item) {
    case_.blocks.push_back(std::move(item));
    shape_ = shapes_of(case_).back();
    return case_.blocks.back();
  }

  void add_random() {
    switch (shape_.kind) {
      case Kind::kTokens:
        return add_embedding();
      case Kind::kSequence:
        return decorate(add_on_sequence());
      case Kind::kImage:
        return decorate(add_on_image());
      case Kind::kFlat:
        return decorate(add_on_rows());
    }
  }

 private:
  std::int64_t size() { return dice_.in(2, 7); }

  void add_embedding() {
    Item item{dice_.one_in(3) ? "embed_tied" : "embed"};
    item.set("words", dice_.in(5, 9)).set("out", size());
    if (item.kind == "embed" && dice_.one_in(4)) item.set("padding", 1);
    if (item.kind == "embed" && dice_.one_in(4) &&
        case_.setting.kind == "data" && !case_.setting.has("exchange") &&
        !case_.setting.has("decay")) {
      item.set("sparse", 1);
      case_.setting.set("optimizer", 0);
    }
    add(item);
  }

  Item& add_layer() {
    switch (dice_.in(0, 9)) {
      case 0:
        return add(Item{"tied"}.set("out", size()));
      case 1:
        return add(Item{"sliced"}.set("out", size()));
      case 2:
        return add(
            Item{"transformed"}.set("out", size()).set("way", dice_.in(0, 2)));
      default:
        return add(
            Item{"linear"}.set("out", size()).set("no_bias", dice_.one_in(5)));
    }
  }

  bool is_layer_before() const {
    return !case_.blocks.empty() && (case_.blocks.back().kind == "linear" ||
                                     case_.blocks.back().kind == "conv");
  }

  Item& add_activation() {
    std::int64_t function = dice_.in(0, 6);
    if (is_layer_before() && dice_.one_in(8)) function = 7;
    return add(Item{"act"}.set("function", function));
  }

  Item& add_on_rows() {
    switch (dice_.in(0, 19)) {
      case 0:
        return add(Item{"norm"});
      case 1:
        return add(Item{"batch_norm"});
      case 2:
        return add(Item{"scale"});
      case 3:
        return add(Item{"left"}.set("out", size()));
      case 4:
        if (!may_leave_out()) return add_layer();
        return add(Item{"rare"});
      case 5:
        if (!may_leave_out()) return add_layer();
        return add(Item{"unused"});
      case 6:
        case_.setting.set("second", 4);
        return add(Item{"merge"}.set("width", 4));
      case 7:
        return add(Item{"cat"});
      case 8:
        if (shape_.features() % 2) return add_layer();
        return add(Item{"to_sequence"}.set("time", 2));
      case 9:
        if (shape_.features() % 2 || shape_.features() < 6) return add_layer();
        return add(Item{"to_image"}.set("height", 2));
      case 10:
        return add_positions();
      default:
        return dice_.one_in(3) ? add_activation() : add_layer();
    }
  }

  // Not twice in a row: with a single row, libtorch lets the gradients of both
  // tables share memory, and adds later gradients to each of them twice.
  Item& add_positions() {
    const bool is_before =
        !case_.blocks.empty() && case_.blocks.back().kind == "positions";
    return is_before ? add_layer() : add(Item{"positions"});
  }

  Item& add_on_sequence() {
    switch (dice_.in(0, 11)) {
      case 0:
      case 1:
        return add(
            Item{"recurrent"}.set("out", size()).set("cell", dice_.in(0, 2)));
      case 2:
      case 3:
        return add(Item{"attention"});
      case 4:
        return add_positions();
      case 5:
        return add(Item{"last"});
      case 6:
        return add(Item{"mean"});
      case 7:
        return add(Item{"norm"});
      case 8:
        return add(Item{"flatten"});
      default:
        return dice_.one_in(3) ? add_activation() : add_layer();
    }
  }

  Item& add_on_image() {
    switch (dice_.in(0, 7)) {
      case 0:
        return add(Item{"batch_norm"});
      case 1:
        return add(Item{"group_norm"});
      case 2:
        return add(Item{"flatten"});
      case 3:
        return add(Item{"mean"});
      case 4:
        return add_activation();
      default:
        return add(Item{"conv"}
                       .set("out", dice_.in(1, 3))
                       .set("kernel", dice_.in(1, 2))
                       .set("padding", 1));
    }
  }

  // In data parallelism, parameters without gradients are an error unless they
  // are allowed.
  bool may_leave_out() {
    const Item& s = case_.setting;
    return s.kind != "data" || s.has("find_unused") || dice_.one_in(15);
  }

  // If a parameter gets several gradients in one backward(), the later ones are
  // averaged separately and not rounded.
  bool may_be_computed_again(const Item& item) const {
    const Item& s = case_.setting;
    return item.kind != "batch_norm" &&
           !(s.has("exchange") && (s.has("decay") || item.has("twice")));
  }

  void decorate(Item& item) {
    const bool is_layer = has_parameters(item);
    const auto shapes = shapes_of(case_);
    const bool is_square = shapes[shapes.size() - 2] == shapes.back();
    if (is_square && is_layer && dice_.one_in(6)) item.set("residual", 1);
    if (is_square && is_layer && dice_.one_in(9)) item.set("twice", 1);
    if (dice_.one_in(9)) item.set("hook", 1);
    if (dice_.one_in(12)) item.set("keep", 1);
    if (dice_.one_in(12)) item.set("output", 1);
    if (is_layer && dice_.one_in(14)) item.set("frozen", 1);
    if (is_layer && dice_.one_in(12)) item.set("parameter_hook", 1);
    if (is_layer && may_be_computed_again(item) && dice_.one_in(30))
      item.set("checkpoint", 1);
    if (is_layer && dice_.one_in(16)) item.set("alias", 1);
  }

  Case& case_;
  Dice& dice_;
  Shape shape_;
};

void choose_input(Case& one, Dice& dice) {
  Item& s = one.setting;
  s.set("width", dice.in(2, 7));
  if (!dice.one_in(3)) return;
  s.set("input", dice.in(1, 3));
  s.set("time", dice.in(1, 4));
  if (s.get("input") == 3)
    s.set("height", dice.in(3, 5)).set("channels", dice.in(1, 2));
}

// Parameters above 256 KiB, which are exchanged in place.
void add_large(Case& one, Dice& dice) {
  Item& s = one.setting;
  const bool is_sequence = dice.one_in(2);
  s.set("input", is_sequence ? 1 : 0);
  if (is_sequence) s.set("time", 170).set("width", 4);
  Builder builder(one, dice);
  if (is_sequence) {
    builder.add(Item{"linear"}.set("out", 200));
    builder.add(Item{"positions"});
    if (dice.one_in(2)) builder.add(Item{"mean"});
    return;
  }
  builder.add(Item{"linear"}.set("out", 190));
  if (dice.one_in(2)) builder.add(Item{"act"}.set("function", dice.in(0, 2)));
  builder.add(Item{"linear"}.set("out", 190));
  if (dice.one_in(2)) builder.add(Item{"positions"});
  builder.add(Item{"linear"}.set("out", 3));
}

// Matrices that PowerSGD compresses, with gradients of full rank.
void add_for_power(Case& one, Dice& dice) {
  one.setting.set("width", dice.in(11, 14));
  Builder builder(one, dice);
  for (std::int64_t i = dice.in(1, 3); i > 0; --i) {
    builder.add(Item{"linear"}
                    .set("out", dice.in(11, 14))
                    .set("alias", dice.one_in(10)));
    if (dice.one_in(2)) builder.add(Item{"act"});
    if (dice.one_in(4)) builder.add(Item{"norm"});
  }
}

// Layers that are larger than the rank and keep equal rows equal.
void add_for_low_rank(Case& one, Dice& dice) {
  one.setting.set("width", dice.in(5, 12));
  Builder builder(one, dice);
  for (std::int64_t i = dice.in(1, 3); i > 0; --i) {
    builder.add(Item{"linear"}.set("out", dice.in(5, 40)));
    if (dice.one_in(2)) builder.add(Item{"act"}.set("function", dice.in(0, 5)));
    if (dice.one_in(5)) builder.add(Item{"norm"});
  }
  if (dice.one_in(2)) builder.add(Item{"linear"}.set("out", dice.in(1, 3)));
}

bool has_free_parameters(const Case& one) {
  for (const Item& item : one.blocks)
    if (!item.has("frozen") && has_parameters(item) && item.kind != "unused" &&
        item.kind != "rare")
      return true;
  return false;
}

}  // namespace

void add_row_network(Case& one, Dice& dice) {
  const Item& s = one.setting;
  if (s.get("exchange") == 3) return add_for_power(one, dice);
  if (s.kind == "rank-dad" && dice.one_in(3))
    return add_for_low_rank(one, dice);
  choose_input(one, dice);
  if (dice.one_in(20)) return add_large(one, dice);
  Builder builder(one, dice);
  for (std::int64_t i = dice.in(1, 6); i > 0; --i) builder.add_random();
  if (!has_free_parameters(one) || builder.shape().kind == Kind::kTokens ||
      dice.one_in(2)) {
    if (builder.shape().kind == Kind::kTokens)
      builder.add(Item{"embed"}.set("out", 4));
    if (builder.shape().kind == Kind::kImage) builder.add(Item{"flatten"});
    builder.add(Item{"linear"}.set("out", dice.in(1, 5)));
  }
}

void add_plan_network(Case& one, Dice& dice) {
  Item& s = one.setting;
  s.set("width", dice.in(3, 8));
  const bool is_plan = s.kind == "plan";
  if (dice.one_in(3)) s.set("input", 3).set("height", dice.in(3, 6));
  Builder builder(one, dice);
  const auto bf16 = [&] { return is_plan && dice.one_in(2); };
  if (s.get("input") == 3) {
    builder.add(
        Item{"conv"}.set("out", 2).set("padding", 1).set("bf16", bf16()));
    if (dice.one_in(2)) builder.add(Item{"act"}.set("function", dice.in(0, 1)));
    builder.add(Item{"flatten"});
  }
  for (std::int64_t i = dice.in(1, 4); i > 0; --i) {
    builder.add(Item{"linear"}
                    .set("out", dice.in(2, 8))
                    .set("no_bias", dice.one_in(4))
                    .set("bf16", bf16()));
    if (dice.one_in(2)) builder.add(Item{"act"}.set("function", dice.in(0, 1)));
    // libtorch 1.13 does not support it with a bf16 input and f32 weights.
    if (is_plan && dice.one_in(4)) builder.add(Item{"norm"});
  }
}

}  // namespace differential
