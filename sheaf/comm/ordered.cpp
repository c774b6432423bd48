// Reproducible all-reduce across hosts. The buffer is taken in segments, a
// segment cut into one part per rank. Everyone sends each part to its owner,
// who sums what came in the order of ranks; then owners send the sums to all.
// Cost: 2(P-1) messages per rank and segment, 2(P-1)/P of the buffer sent per
// rank; hosts with p ranks send p times what the tiers would.

#include "sheaf/comm/ordered.hpp"

#include <algorithm>
#include <cstring>

#include "sheaf/comm/messages.hpp"
#include "sheaf/comm/schedule.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kSegmentBytes = std::size_t{4} << 20;

}  // namespace

void ordered_all_reduce(Call& call, const std::byte* input, std::byte* output,
                        std::size_t count, const Reduction& reduction) {
  const int ranks = call.layout().size();
  const int me = call.layout().rank;
  const std::size_t element = size_of(reduction.dtype);
  const std::size_t segment = kSegmentBytes / element;
  std::vector<std::byte> incoming;
  for (std::size_t begin = 0; begin < count; begin += segment) {
    const Range whole{begin, std::min(segment, count - begin)};
    const Range mine = part_of(whole, me, ranks);
    const std::size_t part_bytes = mine.count * element;
    incoming.resize(part_bytes * static_cast<std::size_t>(ranks));
    std::vector<const void*> sources;
    Messages parts(call);
    for (int rank = 0; rank < ranks; ++rank) {
      std::byte* place =
          incoming.data() + static_cast<std::size_t>(rank) * part_bytes;
      sources.push_back(rank == me ? input + mine.begin * element : place);
      if (rank != me) parts.receive(rank, place, part_bytes);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const Range theirs = part_of(whole, rank, ranks);
      if (rank != me)
        parts.send(rank, input + theirs.begin * element,
                   theirs.count * element);
    }
    parts.wait();

    void* const outputs[] = {output + mine.begin * element};
    reduce(reduction, sources, outputs, mine.count);
    Messages sums(call);
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == me) continue;
      const Range theirs = part_of(whole, rank, ranks);
      sums.receive(rank, output + theirs.begin * element,
                   theirs.count * element);
      sums.send(rank, output + mine.begin * element, part_bytes);
    }
    sums.wait();
  }
}

}  // namespace sheaf::comm
