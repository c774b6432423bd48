// Networks on images that are cut over a grid.

#include "generate.hpp"
#include "plain/network.hpp"

namespace differential {
namespace {

class ImageBuilder {
 public:
  ImageBuilder(Case& one, Dice& dice) : case_(one), dice_(dice) {}

  bool add(const Item& item) {
    case_.blocks.push_back(item);
    try {
      const auto shapes = shapes_of(case_);
      if (shapes.back().elements() <= 1500) return true;
    } catch (const BadCase&) {
    }
    case_.blocks.pop_back();
    return false;
  }

  void add_random() {
    Item item = draw();
    if (!add(item)) return;
    Item& added = case_.blocks.back();
    const auto shapes = shapes_of(case_);
    if (shapes[shapes.size() - 2] == shapes.back() && added.kind != "act" &&
        dice_.one_in(4))
      added.set("residual", 1);
    if (dice_.one_in(12)) added.set("keep", 1);
    if (dice_.one_in(12)) added.set("output", 1);
    // Split tensors do not support hooks.
    if (dice_.one_in(300)) added.set("hook", 1);
    decorate_parameters(added);
  }

  void add_end() {
    switch (dice_.in(0, 4)) {
      case 0:
        add({"flatten"});
        break;
      case 1:
        if (!add({"mean"})) return;
        if (dice_.one_in(6)) case_.blocks.back().set("hook", 1);
        break;
      case 2:
        if (!dice_.one_in(5)) return;
        add(Item{"flat_use"}.set("way", dice_.in(0, 3)));
        if (!dice_.one_in(4) || case_.blocks.back().get("way") != 1) return;
        break;
      default:
        return;
    }
    if (!add(Item{"linear"}.set("out", dice_.in(1, 4)))) return;
    if (dice_.one_in(6)) case_.blocks.back().set("hook", 1);
    decorate_parameters(case_.blocks.back());
  }

 private:
  void decorate_parameters(Item& item) {
    if (!has_parameters(item)) return;
    if (dice_.one_in(12)) item.set("parameter_hook", 1);
    if (dice_.one_in(16)) item.set("alias", 1);
  }

  Item window(const char* kind) {
    Item item{kind};
    item.set("kernel", dice_.in(1, 4)).set("stride", dice_.in(1, 2));
    item.set("padding", dice_.in(0, item.get("kernel") / 2));
    return item;
  }

  Item draw() {
    switch (dice_.in(0, 16)) {
      case 0:
        return window("pool").set("mean", dice_.in(0, 1));
      case 1:
        return window("deconv").set("out", dice_.in(1, 2));
      case 2:
        return {"group_norm"};
      case 3:
        return case_.ranks() == grid_size(case_) ? Item{"batch_norm"}
                                                 : Item{"group_norm"};
      case 4:
        return Item{"adaptive"}.set("size", dice_.in(1, 4));
      case 5:
        return {"cat"};
      case 6:
        return Item{"pad"}.set("by", dice_.in(1, 2));
      case 7:
        return {"crop"};
      case 8:
        return Item{"resize"}
            .set("height", dice_.in(2, 15))
            .set("width", dice_.in(2, 15))
            .set("linear", dice_.one_in(3));
      case 9:
        return Item{"resize"}.set("factor",
                                  dice_.one_of({130, 150, 170, 200, 70, 110}));
      case 10:
        if (dice_.one_in(6))
          return Item{"into"}.set("residual", 1).set("way", dice_.in(0, 2));
        return {"act"};
      case 11:
      case 12:
        return Item{"act"}.set("function", dice_.in(0, 6));
      default:
        return window("conv")
            .set("out", dice_.in(1, 3))
            .set("dilation", dice_.one_in(5) ? 2 : 1);
    }
  }

  Case& case_;
  Dice& dice_;
};

// The axes of the grid, and sometimes one more axis that is not cut.
void choose_image(Item& s, Dice& dice) {
  const int cut = s.has("grid2") ? 3 : s.has("grid1") ? 2 : 1;
  const int axes = cut < 3 && dice.one_in(6) ? cut + 1 : cut;
  const std::int64_t most = axes == 1 ? 40 : axes == 2 ? 14 : 6;
  const std::int64_t least = axes == 3 ? 3 : 5;
  s.set("width", dice.in(least, most));
  if (axes > 1) s.set("height", dice.in(least, most));
  if (axes > 2) s.set("depth", dice.in(least, most));
}

}  // namespace

void add_spatial_network(Case& one, Dice& dice) {
  Item& s = one.setting;
  s.set("input", 3).set("channels", dice.in(1, 2));
  choose_image(s, dice);
  ImageBuilder builder(one, dice);
  while (!builder.add(Item{"conv"}.set("out", dice.in(1, 3)).set("padding", 1)))
    continue;
  // Pairs of sizes whose ratio is rounded in the type of the tensor.
  if (!s.has("depth") && s.has("height") && dice.one_in(25)) {
    const bool is_wide = dice.one_in(2);
    s.set("height", is_wide ? 2 : 112).set("width", is_wide ? 112 : 2);
    s.set("channels", 1);
    one.blocks = {Item{"conv"}.set("out", 1).set("padding", 1)};
    const std::int64_t to = dice.one_of({96, 48, 80, 63});
    one.blocks.push_back(Item{"resize"}
                             .set("height", is_wide ? 2 : to)
                             .set("width", is_wide ? to : 2));
    return;
  }
  for (std::int64_t i = dice.in(1, 5); i > 0; --i) builder.add_random();
  builder.add_end();
}

}  // namespace differential
