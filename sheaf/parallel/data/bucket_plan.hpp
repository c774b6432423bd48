#pragma once
// Which parameters share a bucket.

#include <torch/types.h>

#include <cstddef>
#include <vector>

namespace sheaf::parallel {

// What the plan needs to know of a parameter.
struct BucketItem {
  std::size_t bytes = 0;
  at::ScalarType type = at::kFloat;
  int home = 0;  // Home::number
  bool goes_alone = false;
};

struct BucketCaps {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

// Fills buckets in the given order of items; each holds one type and home,
// and at most its cap unless a single item is larger. The first bucket is
// small, so that the exchange starts early; buckets come in the order in which
// they are complete. Returns indices of items.
std::vector<std::vector<std::size_t>> plan_buckets(
    const std::vector<BucketItem>& items, const std::vector<std::size_t>& order,
    const BucketCaps& caps);

}  // namespace sheaf::parallel
