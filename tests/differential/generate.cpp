#include "generate.hpp"

#include <array>

#include "coverage.hpp"
#include "plain/network.hpp"

namespace differential {
namespace {

std::string choose_strategy(Dice& dice, const std::set<std::string>& wanted) {
  constexpr std::array<std::pair<const char*, int>, 7> kShares{{{"data", 34},
                                                                {"dad", 14},
                                                                {"edad", 12},
                                                                {"rank-dad", 9},
                                                                {"auto", 7},
                                                                {"spatial", 17},
                                                                {"plan", 7}}};
  for (;;) {
    std::int64_t at = dice.in(0, 99);
    for (const auto& [name, share] : kShares) {
      if (at < share && (wanted.empty() || wanted.count(name))) return name;
      at -= share;
      if (at < 0) break;
    }
  }
}

// A grid of one to three axes. The remaining ranks form groups of samples, or
// are added to the last axis.
void choose_grid(Item& s, Dice& dice) {
  const std::int64_t ranks = s.get("ranks");
  const std::int64_t axes = dice.one_of({1, 2, 2, 2, 2, 2, 3});
  const std::int64_t first = dice.in(1, ranks);
  s.set("grid0", ranks % first == 0 ? first : ranks);
  if (axes == 1) return;
  if (axes == 3) s.set("grid1", 1);
  const std::int64_t rest = ranks / s.get("grid0");
  s.set(axes == 3 ? "grid2" : "grid1", dice.one_in(2) ? rest : 1);
}

void choose_ranks(Case& one, Dice& dice, int wanted) {
  Item& s = one.setting;
  const std::int64_t ranks =
      wanted > 0 ? wanted : dice.one_of({1, 2, 2, 2, 2, 2, 3, 3, 4});
  s.set("ranks", ranks);
  if (s.kind == "spatial") choose_grid(s, dice);
  if (ranks == 1 || !dice.one_in(3)) return;
  std::int64_t hosts = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    hosts = 10 * hosts + dice.in(1, 2);
  s.set("hosts", hosts);
}

void choose_data_options(Case& one, Dice& dice) {
  Item& s = one.setting;
  s.set("overlap", dice.in(0, 2));
  if (dice.one_in(2)) s.set("bucket", dice.in(1, 30));
  s.set("optimizer", dice.in(0, 2));
  if (dice.one_in(6)) s.set("keeps_buffers", 1);
  if (dice.one_in(5)) s.set("decay", 1);
  if (s.kind != "data") return;
  if (dice.one_in(2)) s.set("find_unused", 1);
  if (dice.one_in(3)) s.set("exchange", dice.in(1, 3));
  if (s.get("exchange") == 3) {
    s.set("power_rank", dice.in(1, 2));
    s.set("power_start", dice.in(0, 2));
  }
  if (dice.one_in(4)) s.set("scaled", 1);
}

void choose_dad_options(Case& one, Dice& dice) {
  Item& s = one.setting;
  if (dice.one_in(3)) s.set("average_ranks", 1);
  if (dice.one_in(5)) s.set("star", 1);
  if (dice.one_in(3)) s.set("zeros", dice.in(1, 2));
  if (dice.one_in(6)) s.set("first_layer", 1);
  if (dice.one_in(2)) s.set("parcel", 100);
  if (s.kind == "rank-dad") {
    s.set("rank", 64);
    if (dice.one_in(2)) s.set("feedback", 16);
    // The sum on the root has the rows of all ranks: 512 is more than the rank
    // of any gradient here.
    if (s.has("star") && dice.one_in(2)) s.set("two_way", 1).set("rank", 512);
  }
  // Trials take many steps, in which other optimizers may diverge.
  if (s.kind == "auto" && dice.one_in(4))
    s.set("trials", 1).set("optimizer", 2);
  if (s.kind == "auto" && dice.one_in(4)) s.set("measures_link", 1);
}

// Rounded results are compared step by step; optimizers that divide or have
// state would magnify differences.
void keep_to_sgd_where_rounded(Case& one) {
  Item& s = one.setting;
  if (s.has("exchange") || s.has("f32")) s.set("optimizer", 0);
}

Case draw(std::uint64_t seed, const Wishes& wishes) {
  Dice dice(seed);
  Case one;
  one.setting.kind = choose_strategy(dice, wishes.strategies);
  one.setting.set("seed", static_cast<std::int64_t>(seed % 1000000007));
  choose_ranks(one, dice, wishes.ranks);
  choose_data_options(one, dice);
  if (wishes.is_cuda) one.setting.set("cuda", 1);
  const std::string& kind = one.setting.kind;
  if (kind == "spatial") {
    add_spatial_network(one, dice);
  } else if (kind == "plan") {
    one.setting.set("f32", 1);
    add_plan_network(one, dice);
  } else {
    if (kind != "data") choose_dad_options(one, dice);
    if (!one.setting.has("exchange") && kind != "rank-dad" && dice.one_in(14)) {
      one.setting.set("f32", 1);
      one.setting.set("autocast", 1);
      add_plan_network(one, dice);
    } else {
      add_row_network(one, dice);
    }
  }
  add_steps(one, dice);
  keep_to_sgd_where_rounded(one);
  return one;
}

bool has_wishes(const Case& one, const Wishes& wishes) {
  // Split images are supported in host memory only.
  if (wishes.is_cuda && one.setting.kind == "spatial") return false;
  const auto features = features_of(one);
  for (const std::string& feature : wishes.only)
    if (!features.count(feature)) return false;
  for (const std::string& feature : wishes.without)
    if (features.count(feature)) return false;
  return true;
}

}  // namespace

bool has_parameters(const Item& block) {
  static const std::set<std::string> kFunctions{
      "act",  "adaptive", "cat", "crop", "flat_use", "flatten",  "into",
      "last", "mean",     "pad", "pool", "resize",   "to_image", "to_sequence"};
  return kFunctions.count(block.kind) == 0;
}

Case generate(std::uint64_t seed, const Wishes& wishes) {
  for (std::uint64_t attempt = 0; attempt < 100000; ++attempt) {
    const Case one = draw(mixed({seed, attempt}), wishes);
    if (has_wishes(one, wishes)) return one;
  }
  throw BadCase("no case has the features that are asked for");
}

}  // namespace differential
