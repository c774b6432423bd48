#pragma once
// Members of a host read each other's streams. A stream is what one member
// offers: in the arena it is read where it lies, otherwise it passes through
// staging space window by window.

#include <functional>
#include <span>
#include <vector>

#include "sheaf/comm/algorithms/schedule.hpp"
#include "sheaf/comm/group/collective_call.hpp"

namespace sheaf::comm {

// Told on arrival, so that peers can read an offer in place.
struct Offer {
  static constexpr std::uint64_t kNotShared = ~std::uint64_t{0};
  std::uint64_t offset = kNotShared;
};
Offer make_offer(HostMemory& memory, const void* data, std::size_t bytes);

struct Streams {
  const std::byte* mine = nullptr;
  std::vector<std::size_t> bytes;          // of every member's stream
  std::vector<const std::byte*> in_place;  // all of them, or empty: staged
};

// The streams in the arena, if every one of them that is not empty is there.
void find_in_place(Call& call, Streams& streams);

// `window` in bytes of the streams; `at[member]` is where the window of that
// member's stream begins. A stream may end inside or before the window.
using Consume =
    std::function<void(Range window, std::span<const std::byte* const> at)>;

// Every member of the host calls it with the same sizes. Returns when this
// member has consumed all and, for streams in place, when all have.
void exchange(Call& call, const Streams& streams, const Consume& consume);

// The part of a window that lies in [begin, begin + bytes).
Range overlap(Range window, std::size_t begin, std::size_t bytes);

}  // namespace sheaf::comm
