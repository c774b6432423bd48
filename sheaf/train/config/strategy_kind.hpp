#pragma once
// The parallel strategies that a config can name (parallel.strategy).

#include <array>
#include <cstddef>
#include <string_view>

namespace sheaf::train {

enum class StrategyKind {
  kData,
  kDad,
  kEdad,
  kRankDad,
  kAuto,
  kSpatial,
  kNone
};

// The names in configs and messages, in the order of StrategyKind.
inline constexpr std::array<std::string_view, 7> kStrategyNames{
    "data", "dad", "edad", "rank-dad", "auto", "spatial", "none"};

constexpr std::string_view name_of(StrategyKind kind) noexcept {
  return kStrategyNames[static_cast<std::size_t>(kind)];
}
// Throws UsageError for a name that is not in kStrategyNames.
StrategyKind parse_strategy(std::string_view name);

// Whether each image is split over several ranks.
constexpr bool splits_images(StrategyKind kind) noexcept {
  return kind == StrategyKind::kSpatial;
}
// Whether gradients may be exchanged as factors.
constexpr bool exchanges_factors(StrategyKind kind) noexcept {
  return kind == StrategyKind::kDad || kind == StrategyKind::kEdad ||
         kind == StrategyKind::kRankDad || kind == StrategyKind::kAuto;
}

}  // namespace sheaf::train
