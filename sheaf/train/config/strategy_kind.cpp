#include "sheaf/train/config/strategy_kind.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::train {

std::string_view name_of(StrategyKind kind) noexcept {
  return kStrategyNames[static_cast<std::size_t>(kind)];
}

StrategyKind parse_strategy(std::string_view name) {
  const auto* const found =
      std::find(kStrategyNames.begin(), kStrategyNames.end(), name);
  SHEAF_CHECK(found != kStrategyNames.end(), "'", name,
              "' is not a strategy; use one of ", join(kStrategyNames, ", "));
  return static_cast<StrategyKind>(found - kStrategyNames.begin());
}

}  // namespace sheaf::train
