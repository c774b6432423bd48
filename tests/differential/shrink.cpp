#include "shrink.hpp"

#include <chrono>
#include <vector>

namespace differential {
namespace {

using Items = std::vector<Item>;

// Values that refer to a block are adjusted when a block before it is dropped.
void renumber(Case& one, std::int64_t dropped) {
  for (Item& step : one.steps)
    for (const char* key :
         {"freeze", "unfreeze", "freeze_late", "throw_forward",
          "throw_backward", "throw_parameter"})
      if (step.get(key) > dropped) step.set(key, step.get(key) - 1);
}

void add_smaller(const Case& one, Item Case::*item, std::vector<Case>& list) {
  for (const auto& [key, value] : (one.*item).values) {
    if (key == "seed" || key == "ranks") continue;
    for (const std::int64_t less : {std::int64_t{0}, value / 2, value - 1}) {
      if (less == value || less < 0) continue;
      Case smaller = one;
      (smaller.*item).set(key, less);
      list.push_back(smaller);
    }
  }
}

void add_smaller(const Case& one, Items Case::*items, std::vector<Case>& list) {
  for (std::size_t i = 0; i < (one.*items).size(); ++i)
    for (const auto& [key, value] : (one.*items)[i].values)
      for (const std::int64_t less : {std::int64_t{0}, value / 2, value - 1}) {
        if (less == value || less < 0) continue;
        Case smaller = one;
        (smaller.*items)[i].set(key, less);
        list.push_back(smaller);
      }
}

// Larger reductions first.
std::vector<Case> smaller_cases(const Case& one) {
  std::vector<Case> list;
  for (std::size_t i = 0; i < one.steps.size() && one.steps.size() > 1; ++i) {
    list.push_back(one);
    list.back().steps.erase(list.back().steps.begin() +
                            static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < one.blocks.size() && one.blocks.size() > 1; ++i) {
    list.push_back(one);
    list.back().blocks.erase(list.back().blocks.begin() +
                             static_cast<std::ptrdiff_t>(i));
    renumber(list.back(), static_cast<std::int64_t>(i) + 1);
  }
  for (int ranks = 1; ranks < one.ranks(); ++ranks) {
    list.push_back(one);
    list.back().setting.set("ranks", ranks);
  }
  add_smaller(one, &Case::setting, list);
  add_smaller(one, &Case::steps, list);
  add_smaller(one, &Case::blocks, list);
  return list;
}

}  // namespace

Case shrink(const Case& one, const std::function<bool(const Case&)>& fails,
            double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Case smallest = one;
  for (bool has_shrunk = true; has_shrunk;) {
    has_shrunk = false;
    for (const Case& candidate : smaller_cases(smallest)) {
      if (Clock::now() > end) return smallest;
      if (candidate == smallest || !fails(candidate)) continue;
      smallest = candidate;
      has_shrunk = true;
      break;
    }
  }
  return smallest;
}

}  // namespace differential
