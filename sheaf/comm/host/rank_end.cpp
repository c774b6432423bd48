#include "sheaf/comm/host/rank_end.hpp"

namespace sheaf::comm {

void RankEnd::note_call(const CallNumber& call) noexcept {
  calls_[static_cast<std::size_t>(call.group)].store(
      std::uint64_t{call.serial} << 32 | call.sequence,
      std::memory_order_release);
}

bool RankEnd::has_made(const CallNumber& call) const noexcept {
  const CallNumber mine = last(call.group);
  return mine.serial != call.serial ||
         static_cast<std::int32_t>(mine.sequence - call.sequence) >= 0;
}

}  // namespace sheaf::comm
