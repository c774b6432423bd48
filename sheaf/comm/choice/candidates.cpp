#include <algorithm>
#include <array>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/choice/tuner.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kSmallestSegment = std::size_t{64} << 10;
// Piece sizes per lane between hosts.
constexpr std::array kLaneSegments{std::size_t{1} << 20,
                                   std::size_t{256} << 10};
// A tree sends the whole buffer at each level, so it suits small messages only.
constexpr std::size_t kLargestTreeBytes = std::size_t{1} << 20;

class List {
 public:
  explicit List(const HostMap& host_map) : host_map_(host_map) {}
  void add(const Choice& choice) {
    std::string text = text_of(choice, host_map_);
    if (std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return;
    texts_.push_back(std::move(text));
    choices_.push_back(choice);
  }
  std::vector<Choice> take() { return std::move(choices_); }

 private:
  const HostMap& host_map_;
  std::vector<std::string> texts_;
  std::vector<Choice> choices_;
};

void add_segments(List& list, const HostMap& host_map, std::size_t bytes) {
  Choice choice;
  choice.plan.lanes = host_map.local_count();
  choice.plan.outer_dims = {1};
  choice.plan.tier_algorithms = {TierAlgorithm::kRing};
  for (std::size_t segment = kSmallestSegment; segment <= kMaxSegmentBytes;
       segment *= 2) {
    choice.plan.segment_bytes = segment;
    list.add(choice);
    if (segment >= bytes) break;  // larger segments are equivalent
  }
}

std::vector<TierAlgorithm> algorithms_for(int size, bool is_last,
                                          std::size_t bytes) {
  std::vector<TierAlgorithm> algorithms{TierAlgorithm::kRing};
  // With two members, a ring is the same as halving.
  if (size > 2) algorithms.push_back(TierAlgorithm::kHalving);
  if (size > 1 && is_last && bytes <= kLargestTreeBytes)
    algorithms.push_back(TierAlgorithm::kTree);
  return algorithms;
}

// Adds every combination of algorithms, tier by tier.
void add_tiers(List& list, Choice choice, std::size_t bytes) {
  auto& chosen = choice.plan.tier_algorithms;
  const std::size_t tier = chosen.size();
  if (tier == choice.plan.outer_dims.size()) return list.add(choice);
  const int size = choice.plan.outer_dims[tier];
  const bool is_last = tier + 1 == choice.plan.outer_dims.size();
  for (const TierAlgorithm algorithm : algorithms_for(size, is_last, bytes)) {
    chosen.push_back(algorithm);
    add_tiers(list, choice, bytes);
    chosen.pop_back();
  }
}

void add_hierarchies(List& list, const HostMap& host_map, const Choice& usual,
                     std::size_t bytes) {
  for (const int lanes : {host_map.widest_host(), 1})
    for (const std::size_t segment : kLaneSegments) {
      Choice choice;
      choice.plan.lanes = lanes;
      choice.plan.segment_bytes = segment * static_cast<std::size_t>(lanes);
      choice.plan.outer_dims = {host_map.host_count()};
      if (!usual.plan.is_flat && !usual.plan.outer_dims.empty())
        choice.plan.outer_dims = usual.plan.outer_dims;
      // If the buffer fits into the smallest segment, all segment sizes are
      // equivalent.
      const bool is_same =
          bytes <= kLaneSegments.back() * static_cast<std::size_t>(lanes);
      if (!is_same || segment == kLaneSegments.front())
        add_tiers(list, choice, bytes);
    }
}

void add_flat(List& list, std::vector<int> dims) {
  Choice choice;
  choice.plan.is_flat = true;
  choice.plan.segment_bytes = kMaxSegmentBytes;
  choice.plan.tier_algorithms.assign(dims.size(), TierAlgorithm::kRing);
  choice.plan.outer_dims = std::move(dims);
  list.add(choice);
}

}  // namespace

std::vector<Choice> candidates(const HostMap& host_map, const Choice& usual,
                               std::size_t bytes) {
  List list(host_map);
  if (host_map.host_count() > 1) {
    add_hierarchies(list, host_map, usual, bytes);
  } else {
    if (bytes <= kSmallBytes) list.add({DataPath::kSmall, {}});
    add_segments(list, host_map, bytes);
  }
  add_flat(list, {host_map.size()});
  list.add(usual);
  return list.take();
}

}  // namespace sheaf::comm
