#pragma once
// Members of a host read each other's streams. A stream is the data offered by
// one member: if it is in the arena it is read in place, otherwise it is copied
// through the staging space window by window.

#include <functional>
#include <span>
#include <vector>

#include "sheaf/comm/algorithms/schedule.hpp"
#include "sheaf/comm/group/collective_call.hpp"

namespace sheaf::comm {

struct Streams {
  const std::byte* mine = nullptr;
  std::vector<std::size_t> bytes;          // size of every member's stream
  std::vector<const std::byte*> in_place;  // all streams, or empty: staged
};

// All ranks must have arrived with their SharedBuffers first in the payload.
// Sets `in_place` if all streams that are not empty are in the arena.
void find_in_place(CollectiveCall& call, Streams& streams);

// `window` is a range of bytes of the streams; `at[member]` points to the start
// of the window in that member's stream. A stream may end inside or before the
// window.
using Consume =
    std::function<void(Range window, std::span<const std::byte* const> at)>;

// Every member of the host must call it with the same sizes. Returns when this
// member has consumed all streams and, for streams in place, when all members
// have.
void exchange(CollectiveCall& call, const Streams& streams,
              const Consume& consume);

// The part of a window within [begin, begin + bytes).
Range overlap(Range window, std::size_t begin, std::size_t bytes);

}  // namespace sheaf::comm
