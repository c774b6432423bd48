#include "sheaf/halo/cuts.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::halo {
namespace {

std::string joined(const std::vector<std::int64_t>& positions) {
  std::string text;
  for (const std::int64_t position : positions)
    text += concat(text.empty() ? "" : "|", position);
  return text;
}

}  // namespace

Cuts::Cuts(std::vector<std::int64_t> positions)
    : positions_(std::move(positions)) {
  SHEAF_CHECK(positions_.size() >= 2, "an axis of P parts has P + 1 cuts, but ",
              positions_.size(), " are given; give at least 0 and its size");
  SHEAF_CHECK(positions_.front() == 0, "the cuts ", text(), " begin at ",
              positions_.front(), "; the first cut must be 0");
  SHEAF_CHECK(std::is_sorted(positions_.begin(), positions_.end()), "the cuts ",
              text(), " are not in ascending order; sort them");
}

Cuts Cuts::balanced(std::int64_t size, int parts) {
  SHEAF_CHECK(size >= 0 && parts >= 1, "an axis of ", size,
              " positions cannot be cut into ", parts,
              " parts; the size must be at least 0, the parts at least 1");
  std::vector<std::int64_t> positions{0};
  for (int part = 0; part < parts; ++part)
    positions.push_back(positions.back() + size / parts +
                        (part < size % parts ? 1 : 0));
  return Cuts(std::move(positions));
}

int Cuts::owner(std::int64_t position) const {
  SHEAF_CHECK(position >= 0 && position < size(), "position ", position,
              " is not on the axis cut at ", text());
  const auto above =
      std::upper_bound(positions_.begin(), positions_.end(), position);
  return static_cast<int>(above - positions_.begin()) - 1;
}

std::pair<int, int> Cuts::owners(const Interval& interval) const {
  const Interval here = intersect(interval, {0, size()});
  if (here.is_empty()) return {0, 0};
  return {owner(here.begin), owner(here.end - 1) + 1};
}

std::string Cuts::text() const { return joined(positions_); }

}  // namespace sheaf::halo
