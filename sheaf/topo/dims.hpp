#pragma once
// A declared topology such as 4x3: four ranks on each of three hosts.

#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

inline constexpr int kMaxDims = 4;

// Sizes of the tiers, innermost first: ranks per host, hosts per rack, racks
// per aisle, aisles. They are logical: on a flat network, a factorization other
// than the physical one may be faster.
struct Dims {
  std::vector<int> sizes;

  int product() const;       // the number of ranks; 1 if there are no sizes
  std::string text() const;  // "4x3"
  bool operator==(const Dims&) const = default;
};

// Parses one to four sizes >= 1 joined by 'x'. Throws UsageError, which names
// the invalid size.
Dims parse_dims(std::string_view text);

// Throws UsageError, which names both numbers, if the product is not `ranks`.
void check_fits(const Dims& dims, int ranks);

}  // namespace sheaf::topo
