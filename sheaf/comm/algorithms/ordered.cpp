// Reproducible reductions across hosts. The buffer is processed in segments,
// each divided into one chunk per rank, its owner. Every rank sends each chunk
// to its owner, which sums the chunks in rank order; then the owners send the
// sums to all ranks or to the root. In a reduce-scatter, the owner of a block
// is the rank that receives it. Cost per rank and segment: P-1 messages and
// (P-1)/P of the segment for the sums, and the same again to distribute them
// (to a root: 1 message, 1/P). Hosts with p ranks send p times as many bytes as
// the tiered algorithms.

#include "sheaf/comm/algorithms/ordered.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "sheaf/comm/group/messages.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kSegmentBytes = std::size_t{4} << 20;

// Sums the chunk of this rank; chunks[r] is the chunk owned by rank r.
class ChunkSum {
 public:
  ChunkSum(CollectiveCall& call, const Reduction& reduction)
      : call_(call),
        reduction_(reduction),
        ranks_(call.host_map().size()),
        me_(call.host_map().rank),
        element_(size_of(reduction.dtype)) {}

  // On return all messages of this rank have been sent, so the input may be
  // overwritten.
  void sum(const std::byte* input, const std::vector<Range>& chunks,
           std::byte* output) {
    const Range mine = chunks[static_cast<std::size_t>(me_)];
    const std::size_t bytes = mine.count * element_;
    incoming_.resize(bytes * static_cast<std::size_t>(ranks_));
    std::vector<const void*> sources;
    Messages messages(call_);
    for (int rank = 0; rank < ranks_; ++rank) {
      std::byte* to = incoming_.data() + static_cast<std::size_t>(rank) * bytes;
      sources.push_back(rank == me_ ? input + mine.begin * element_ : to);
      if (rank != me_) messages.receive(rank, to, bytes);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const Range theirs = chunks[static_cast<std::size_t>(rank)];
      if (rank != me_)
        messages.send(rank, input + theirs.begin * element_,
                      theirs.count * element_);
    }
    messages.wait();
    void* const outputs[] = {output};
    reduce(reduction_, sources, outputs, mine.count);
  }

 private:
  CollectiveCall& call_;
  const Reduction& reduction_;
  const int ranks_;
  const int me_;
  const std::size_t element_;
  std::vector<std::byte> incoming_;
};

std::vector<Range> chunks_of(Range whole, int ranks) {
  std::vector<Range> chunks;
  for (int rank = 0; rank < ranks; ++rank)
    chunks.push_back(chunk_of(whole, rank, ranks));
  return chunks;
}

// Calls fn(chunks) for each segment.
template <class Fn>
void for_each_segment(CollectiveCall& call, std::size_t count,
                      std::size_t element, Fn fn) {
  const std::size_t segment = kSegmentBytes / element;
  for (std::size_t begin = 0; begin < count; begin += segment)
    fn(chunks_of({begin, std::min(segment, count - begin)},
                 call.host_map().size()));
}

}  // namespace

void ordered_all_reduce(CollectiveCall& call, const std::byte* input,
                        std::byte* output, std::size_t count,
                        const Reduction& reduction) {
  const int me = call.host_map().rank;
  const std::size_t element = size_of(reduction.dtype);
  ChunkSum chunk_sum(call, reduction);
  for_each_segment(call, count, element, [&](const auto& chunks) {
    const Range mine = chunks[static_cast<std::size_t>(me)];
    std::byte* sum = output + mine.begin * element;
    chunk_sum.sum(input, chunks, sum);
    Messages messages(call);
    for (int rank = 0; rank < call.host_map().size(); ++rank) {
      if (rank == me) continue;
      const Range theirs = chunks[static_cast<std::size_t>(rank)];
      messages.receive(rank, output + theirs.begin * element,
                       theirs.count * element);
      messages.send(rank, sum, mine.count * element);
    }
    messages.wait();
  });
}

void ordered_reduce(CollectiveCall& call, const std::byte* input,
                    std::byte* output, std::size_t count,
                    const Reduction& reduction, int root) {
  const int me = call.host_map().rank;
  const std::size_t element = size_of(reduction.dtype);
  ChunkSum chunk_sum(call, reduction);
  std::vector<std::byte> kept;
  for_each_segment(call, count, element, [&](const auto& chunks) {
    const Range mine = chunks[static_cast<std::size_t>(me)];
    kept.resize(mine.count * element);
    std::byte* sum = me == root ? output + mine.begin * element : kept.data();
    chunk_sum.sum(input, chunks, sum);
    Messages messages(call);
    if (me != root) messages.send(root, sum, mine.count * element);
    for (int rank = 0; me == root && rank < call.host_map().size(); ++rank) {
      const Range theirs = chunks[static_cast<std::size_t>(rank)];
      if (rank != me)
        messages.receive(rank, output + theirs.begin * element,
                         theirs.count * element);
    }
    messages.wait();
  });
}

// Each segment takes an equal share of every block. The sums are kept until the
// whole input has been read, since the output may overlap it.
void ordered_reduce_scatter(CollectiveCall& call, const std::byte* input,
                            std::byte* output, const std::vector<Range>& blocks,
                            const Reduction& reduction) {
  const std::size_t element = size_of(reduction.dtype);
  const auto me = static_cast<std::size_t>(call.host_map().rank);
  std::size_t total = 0;
  for (const Range& block : blocks) total += block.count;
  const auto segments = static_cast<int>(total * element / kSegmentBytes) + 1;
  ChunkSum chunk_sum(call, reduction);
  const std::size_t bytes = blocks[me].count * element;
  const auto sums = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::byte* to = sums.get();
  for (int segment = 0; segment < segments; ++segment) {
    std::vector<Range> chunks;
    for (const Range& block : blocks)
      chunks.push_back(chunk_of(block, segment, segments));
    chunk_sum.sum(input, chunks, to);
    to += chunks[me].count * element;
  }
  if (bytes) std::memcpy(output, sums.get(), bytes);
}

}  // namespace sheaf::comm
