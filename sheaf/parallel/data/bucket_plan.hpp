#pragma once
// Assigns parameters to buckets.

#include <torch/types.h>

#include <cstddef>
#include <vector>

namespace sheaf::parallel {

// The properties of a parameter that the plan depends on.
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

// Fills buckets with the items in the given order. Each bucket holds one type
// and placement, and at most its cap unless a single item is larger. The first
// bucket is small, so that the exchange starts early. Buckets are returned in
// the order in which they are filled, as indices of items.
std::vector<std::vector<std::size_t>> plan_buckets(
    const std::vector<BucketItem>& items, const std::vector<std::size_t>& order,
    const BucketCaps& caps);

}  // namespace sheaf::parallel
