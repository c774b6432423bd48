#include "sheaf/parallel/data/bucket_plan.hpp"

#include <algorithm>

namespace sheaf::parallel {
namespace {

struct Open {
  std::vector<std::size_t> items;
  std::size_t bytes = 0;
};

bool share_a_bucket(const BucketItem& a, const BucketItem& b) {
  return a.type == b.type && a.home == b.home && !a.goes_alone && !b.goes_alone;
}

}  // namespace

std::vector<std::vector<std::size_t>> plan_buckets(
    const std::vector<BucketItem>& items, const std::vector<std::size_t>& order,
    const BucketCaps& caps) {
  std::vector<std::vector<std::size_t>> done;
  std::vector<Open> open;
  const auto close = [&](std::size_t index) {
    done.push_back(std::move(open[index].items));
    open.erase(open.begin() + static_cast<long>(index));
  };
  for (const std::size_t item : order) {
    std::size_t at = 0;
    while (at < open.size() &&
           !share_a_bucket(items[open[at].items[0]], items[item]))
      ++at;
    if (at == open.size()) open.emplace_back();
    const std::size_t cap = done.empty() ? caps.first_bytes : caps.bytes;
    if (!open[at].items.empty() && open[at].bytes + items[item].bytes > cap) {
      close(at);
      at = open.size();
      open.emplace_back();
    }
    open[at].items.push_back(item);
    open[at].bytes += items[item].bytes;
    const std::size_t limit = done.empty() ? caps.first_bytes : caps.bytes;
    if (items[item].goes_alone || open[at].bytes >= limit) close(at);
  }
  while (!open.empty()) close(0);
  return done;
}

}  // namespace sheaf::parallel
