#include "sheaf/plan/format/bucket_rules.hpp"

namespace sheaf::plan {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{256} << 10;
constexpr std::int64_t kBlockAlignment = 16;

struct OpenBucket {
  std::vector<std::size_t> items;
  std::size_t bytes = 0;
};

bool share_a_bucket(const BucketItem& a, const BucketItem& b) {
  return a.type == b.type && a.placement == b.placement && !a.goes_alone &&
         !b.goes_alone;
}

}  // namespace

std::vector<std::vector<std::size_t>> plan_buckets(
    const std::vector<BucketItem>& items, const std::vector<std::size_t>& order,
    const BucketCaps& caps) {
  std::vector<std::vector<std::size_t>> done;
  std::vector<OpenBucket> open;
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

bool goes_alone(std::size_t bytes, bool is_on_devices, bool allows_in_place) {
  return allows_in_place && !is_on_devices && bytes >= kLargeBytes;
}

std::int64_t aligned_elements(std::int64_t elements) {
  return (elements + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

StatusPlace status_place(bool goes_alone, bool keeps_zeros, bool uses_nccl,
                         int hosts) {
  if (goes_alone || !keeps_zeros || uses_nccl) return StatusPlace::kNone;
  return hosts > 2 ? StatusPlace::kInPadding : StatusPlace::kAnywhere;
}

BlockLayout lay_out_block(const std::vector<std::int64_t>& gradients,
                          StatusPlace status) {
  BlockLayout block;
  for (const std::int64_t count : gradients) {
    const std::int64_t size =
        gradients.size() > 1 ? aligned_elements(count) : count;
    if (status != StatusPlace::kNone && count < size)
      block.status_at = block.elements + count;
    block.elements += size;
  }
  if (status == StatusPlace::kAnywhere && !block.status_at) {
    block.status_at = block.elements;
    block.elements += kBlockAlignment;
  }
  return block;
}

std::int64_t half_exchange_bytes(std::int64_t elements, int hosts) {
  const std::int64_t sum_bytes = hosts > 1 ? 4 : 2, result_bytes = 2;
  return elements * (sum_bytes + result_bytes) / 2;
}

}  // namespace sheaf::plan
