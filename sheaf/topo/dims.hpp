#pragma once
// A declared topology such as 4x3: four ranks on a host, three hosts.

#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

inline constexpr int kMaxDims = 4;

// The sizes of the tiers from the inside out: ranks per host, hosts per rack,
// racks per aisle, aisles. They are logical: on a flat network another
// factorisation than the physical one may be faster.
struct Dims {
  std::vector<int> sizes;

  int product() const;       // the number of ranks; 1 when there are no sizes
  std::string text() const;  // "4x3"
  bool operator==(const Dims&) const = default;
};

// Reads one to four sizes >= 1 joined by 'x'. UsageError says which size is
// wrong and why.
Dims parse_dims(std::string_view text);

// UsageError when the product is not `ranks`; it names both numbers.
void check_fits(const Dims& dims, int ranks);

}  // namespace sheaf::topo
