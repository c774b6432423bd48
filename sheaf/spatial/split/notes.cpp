#include "sheaf/spatial/split/notes.hpp"

#include <algorithm>
#include <limits>

#include "sheaf/base/error.hpp"

namespace sheaf::spatial {

thread_local Call* CallName::current_ = nullptr;

std::string CallName::text(const Tiles& tiles) {
  if (!current_ || !tiles.is_heard()) return "";
  const std::string name = current_->name();
  std::string text = name.substr(name.find("::") + 2);
  for (std::size_t i = 1; i < current_->count(); ++i) {
    const at::Tensor given = current_->tensor(i);
    if (!given.defined()) continue;
    const auto found = tiles.weight_names().find(given.unsafeGetTensorImpl());
    if (found != tiles.weight_names().end())
      return text + " of " + found->second;
  }
  return text;
}

std::string widest_halo(const Split& split, const Needs& needs) {
  std::string text;
  for (int axis = 0; axis < split.layout.axes(); ++axis) {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
    std::int64_t low = kNone, high = kNone;
    for (int rank = 0; rank < split.layout.ranks(); ++rank) {
      const halo::Interval own = split.layout.box_of(rank)[axis];
      const halo::Interval wanted =
          needs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(axis)]
              .inside;
      if (wanted.is_empty()) continue;
      low = std::max(low, own.begin - wanted.begin);
      high = std::max(high, wanted.end - own.end);
    }
    text += concat(axis > 0 ? " " : "", low == kNone ? 0 : low, "+",
                   high == kNone ? 0 : high);
  }
  return text;
}

void note_halo(const Split& split, const Needs& needs,
               const halo::HaloPlan& plan, const at::Tensor& plain,
               const std::string& operation, std::int64_t bytes_in_place,
               bool is_overlapped) {
  if (!split.tiles->is_heard()) return;
  const std::int64_t planes = plain.size(0) * plain.size(1);
  split.tiles->notify({operation, split.text(), widest_halo(split, needs),
                       static_cast<std::int64_t>(plan.sends.size()),
                       plan.sent_volume() * planes *
                           static_cast<std::int64_t>(plain.element_size()),
                       bytes_in_place, is_overlapped});
}

void note_sum(const Tiles& tiles, const at::Tensor& summed,
              const std::string& operation) {
  note_sums(tiles, 1, static_cast<std::int64_t>(summed.nbytes()), operation);
}

void note_sums(const Tiles& tiles, std::int64_t sums, std::int64_t bytes,
               const std::string& operation) {
  if (!tiles.is_heard()) return;
  tiles.notify({operation, "", "sum of all ranks", sums, bytes, 0, false});
}

}  // namespace sheaf::spatial
