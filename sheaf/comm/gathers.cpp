// Gather, all-gather and scatter: blocks that are only moved. Members of a
// host read each other's blocks in shared memory; between hosts every block
// goes once, straight from its owner. For an all-gather the receivers of a
// host share the blocks of the others among them: member l takes those of the
// members l, l + p, l + 2p .. of another host.

#include <cstring>

#include "sheaf/comm/checks.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/comm/exchange.hpp"
#include "sheaf/comm/messages.hpp"
#include "sheaf/comm/perform.hpp"

namespace sheaf::comm {
namespace {

// Blocks of all ranks, in bytes.
struct Blocks {
  Blocks(const std::vector<std::size_t>& counts, std::size_t element)
      : sizes(counts), starts(block_starts(counts)) {
    for (auto& size : sizes) size *= element;
    for (auto& start : starts) start *= element;
  }
  std::size_t size(int rank) const {
    return sizes[static_cast<std::size_t>(rank)];
  }
  std::size_t start(int rank) const {
    return starts[static_cast<std::size_t>(rank)];
  }
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> starts;
};

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes && to != from) std::memmove(to, from, bytes);
}

// One block per member of the host, `ranks[member]` (-1: none), into `output`.
void share_blocks(Call& call, const Blocks& blocks,
                  const std::vector<int>& ranks, const std::byte* mine,
                  std::byte* output, bool in_place) {
  Streams streams{.mine = mine, .bytes = {}, .in_place = {}};
  for (const int rank : ranks)
    streams.bytes.push_back(rank < 0 ? 0 : blocks.size(rank));
  if (in_place) find_in_place(call, streams);
  exchange(call, streams,
           [&](Range window, std::span<const std::byte* const> at) {
             if (!output) return;
             for (std::size_t member = 0; member < ranks.size(); ++member) {
               const Range part = overlap(window, 0, streams.bytes[member]);
               if (part.count)
                 copy(output + blocks.start(ranks[member]) + part.begin,
                      at[member], part.count);
             }
           });
}

int delegate(const Layout& layout, int host, int rank) {
  const auto& members = layout.hosts[static_cast<std::size_t>(host)];
  const int index = layout.local_of[static_cast<std::size_t>(rank)];
  return members[static_cast<std::size_t>(index) % members.size()];
}

void all_gather_remote(Call& call, const Blocks& blocks, const std::byte* input,
                       std::byte* output) {
  const Layout& layout = call.layout();
  Messages messages(call);
  for (int rank = 0; rank < layout.size(); ++rank)
    if (!layout.is_local(rank) &&
        delegate(layout, layout.host, rank) == layout.rank)
      messages.receive(rank, output + blocks.start(rank), blocks.size(rank));
  for (int host = 0; host < layout.host_count(); ++host)
    if (host != layout.host)
      messages.send(delegate(layout, host, layout.rank), input,
                    blocks.size(layout.rank));
  messages.wait();
}

// The blocks of another host, that its members' delegates hold here.
void share_remote(Call& call, const Blocks& blocks, std::byte* output) {
  const Layout& layout = call.layout();
  const int here = layout.local_count();
  for (int host = 0; host < layout.host_count(); ++host) {
    if (host == layout.host) continue;
    const auto& members = layout.hosts[static_cast<std::size_t>(host)];
    for (std::size_t first = 0; first < members.size();
         first += static_cast<std::size_t>(here)) {
      std::vector<int> ranks(static_cast<std::size_t>(here), -1);
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (first + i < members.size()) ranks[i] = members[first + i];
      const int mine = ranks[static_cast<std::size_t>(layout.local)];
      share_blocks(call, blocks, ranks,
                   mine < 0 ? output : output + blocks.start(mine), output,
                   /*in_place=*/false);
    }
  }
}

// One call: the blocks of all ranks, and what this rank gave.
struct Move {
  Blocks blocks;
  const std::byte* input;
  std::byte* output;
  int root;
  Fingerprint fingerprint;
  std::chrono::milliseconds timeout;
};

// The members of the host may read the first `offered` bytes of the input.
template <class Body>
void run(GroupCore& group, const Move& move, std::size_t offered, Body body) {
  if (group.size() == 1)
    return copy(move.output, move.input, move.blocks.size(0));
  const Offer offer = make_offer(group.runtime().memory(), move.input, offered);
  perform(group, move.fingerprint, move.timeout, &offer, sizeof offer, body);
}

void run_all_gather(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  run(group, move, blocks.size(group.rank()), [&](Call& call) {
    const Layout& layout = call.layout();
    if (layout.host_count() > 1)
      all_gather_remote(call, blocks, move.input, move.output);
    share_blocks(call, blocks, layout.local_ranks(), move.input, move.output,
                 /*in_place=*/true);
    if (layout.host_count() > 1) share_remote(call, blocks, move.output);
  });
}

void run_gather(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  const int me = group.rank();
  const bool is_root = me == move.root;
  run(group, move, blocks.size(me), [&](Call& call) {
    const Layout& layout = call.layout();
    Messages messages(call);
    for (int rank = 0; is_root && rank < layout.size(); ++rank)
      if (!layout.is_local(rank))
        messages.receive(rank, move.output + blocks.start(rank),
                         blocks.size(rank));
    if (layout.is_local(move.root))
      share_blocks(call, blocks, layout.local_ranks(), move.input,
                   is_root ? move.output : nullptr, /*in_place=*/true);
    else
      messages.send(move.root, move.input, blocks.size(me));
    messages.wait();
  });
}

// The root's host takes its blocks out of the root's buffer.
void scatter_local(Call& call, const Move& move) {
  const Layout& layout = call.layout();
  const std::size_t mine = move.blocks.start(layout.rank);
  const auto root = static_cast<std::size_t>(
      layout.local_of[static_cast<std::size_t>(move.root)]);
  Streams streams{.mine = move.input, .bytes = {}, .in_place = {}};
  streams.bytes.resize(static_cast<std::size_t>(layout.local_count()));
  streams.bytes[root] = move.blocks.starts.back();
  find_in_place(call, streams);
  exchange(
      call, streams, [&](Range window, std::span<const std::byte* const> at) {
        const Range part = overlap(window, mine, move.blocks.size(layout.rank));
        copy(move.output + (part.begin - mine),
             at[root] + (part.begin - window.begin), part.count);
      });
}

void run_scatter(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  const int me = group.rank();
  const bool is_root = me == move.root;
  run(group, move, is_root ? blocks.starts.back() : 0, [&](Call& call) {
    const Layout& layout = call.layout();
    Messages messages(call);
    if (!layout.is_local(move.root)) {
      messages.receive(move.root, move.output, blocks.size(me));
      return messages.wait();
    }
    for (int rank = 0; is_root && rank < layout.size(); ++rank)
      if (!layout.is_local(rank))
        messages.send(rank, move.input + blocks.start(rank), blocks.size(rank));
    scatter_local(call, move);
    messages.wait();
  });
}

// Unequal sizes are part of the fingerprint: all ranks must give the same.
Fingerprint with_counts(Fingerprint fingerprint, Counts counts) {
  for (const std::size_t count : counts)
    fingerprint.name_hash =
        fingerprint.name_hash * 31 + static_cast<std::uint32_t>(count);
  return fingerprint;
}

// Every rank has one block; all of them, one after the other, are the root's,
// or every rank's in an all-gather.
Move prepare(const Group& group, Operation operation, const ConstBuffer& input,
             const Buffer& output, const CollectiveOptions& options,
             Counts counts) {
  const bool is_scatter = operation == Operation::kScatter;
  const ConstBuffer block = is_scatter ? ConstBuffer(output) : input;
  const ConstBuffer all = is_scatter ? input : ConstBuffer(output);
  const auto sizes = block_counts(group, operation, counts, block.count);
  check_count(group, operation, is_scatter ? "output" : "input", block.count,
              sizes[static_cast<std::size_t>(group.rank())]);
  const std::size_t total = block_starts(sizes).back();
  if (operation == Operation::kAllGather || group.rank() == options.root) {
    check_same_type(group, operation, input, output);
    check_count(group, operation, is_scatter ? "input" : "output", all.count,
                total);
  }
  const auto fingerprint =
      make_fingerprint(operation, block.dtype, total, options);
  return {.blocks = Blocks(sizes, size_of(block.dtype)),
          .input = bytes_of(input.data),
          .output = bytes_of(output.data),
          .root = options.root,
          .fingerprint = with_counts(fingerprint, counts),
          .timeout = options.timeout};
}

}  // namespace

Work all_gather(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kAllGather;
  check_member(group, kThis);
  const Move move = prepare(group, kThis, input, output, options, counts);
  return group.core().submit(options.async, [move, &core = group.core()] {
    run_all_gather(core, move);
  });
}

Work gather(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kGather;
  check_root(group, kThis, options.root);
  const Move move = prepare(group, kThis, input, output, options, counts);
  return group.core().submit(
      options.async, [move, &core = group.core()] { run_gather(core, move); });
}

Work scatter(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kScatter;
  check_root(group, kThis, options.root);
  const Move move = prepare(group, kThis, input, output, options, counts);
  return group.core().submit(
      options.async, [move, &core = group.core()] { run_scatter(core, move); });
}

}  // namespace sheaf::comm
