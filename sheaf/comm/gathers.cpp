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

void run_all_gather(GroupCore& group, const Blocks& blocks,
                    const std::byte* input, std::byte* output,
                    const Fingerprint& fingerprint,
                    std::chrono::milliseconds timeout) {
  const int me = group.rank();
  if (group.size() == 1) return copy(output, input, blocks.size(me));
  const Offer offer =
      make_offer(group.runtime().memory(), input, blocks.size(me));
  perform(group, fingerprint, timeout, &offer, sizeof offer, [&](Call& call) {
    const Layout& layout = call.layout();
    if (layout.host_count() > 1) all_gather_remote(call, blocks, input, output);
    share_blocks(call, blocks, layout.local_ranks(), input, output,
                 /*in_place=*/true);
    if (layout.host_count() > 1) share_remote(call, blocks, output);
  });
}

void run_gather(GroupCore& group, const Blocks& blocks, int root,
                const std::byte* input, std::byte* output,
                const Fingerprint& fingerprint,
                std::chrono::milliseconds timeout) {
  const int me = group.rank();
  if (group.size() == 1) return copy(output, input, blocks.size(me));
  const Offer offer =
      make_offer(group.runtime().memory(), input, blocks.size(me));
  perform(group, fingerprint, timeout, &offer, sizeof offer, [&](Call& call) {
    const Layout& layout = call.layout();
    Messages messages(call);
    for (int rank = 0; me == root && rank < layout.size(); ++rank)
      if (!layout.is_local(rank))
        messages.receive(rank, output + blocks.start(rank), blocks.size(rank));
    if (layout.is_local(root))
      share_blocks(call, blocks, layout.local_ranks(), input,
                   me == root ? output : nullptr, /*in_place=*/true);
    else
      messages.send(root, input, blocks.size(me));
    messages.wait();
  });
}

void run_scatter(GroupCore& group, const Blocks& blocks, int root,
                 const std::byte* input, std::byte* output,
                 const Fingerprint& fingerprint,
                 std::chrono::milliseconds timeout) {
  const int me = group.rank();
  if (group.size() == 1) return copy(output, input, blocks.size(me));
  const std::size_t total = blocks.starts.back();
  const Offer offer =
      make_offer(group.runtime().memory(), input, me == root ? total : 0);
  perform(group, fingerprint, timeout, &offer, sizeof offer, [&](Call& call) {
    const Layout& layout = call.layout();
    Messages messages(call);
    if (!layout.is_local(root)) {
      messages.receive(root, output, blocks.size(me));
      return messages.wait();
    }
    for (int rank = 0; me == root && rank < layout.size(); ++rank)
      if (!layout.is_local(rank))
        messages.send(rank, input + blocks.start(rank), blocks.size(rank));
    const int member = layout.local_of[static_cast<std::size_t>(root)];
    Streams streams{.mine = input, .bytes = {}, .in_place = {}};
    streams.bytes.resize(static_cast<std::size_t>(layout.local_count()));
    streams.bytes[static_cast<std::size_t>(member)] = total;
    find_in_place(call, streams);
    exchange(
        call, streams, [&](Range window, std::span<const std::byte* const> at) {
          const Range part = overlap(window, blocks.start(me), blocks.size(me));
          copy(output + (part.begin - blocks.start(me)),
               at[static_cast<std::size_t>(member)] +
                   (part.begin - window.begin),
               part.count);
        });
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

}  // namespace

Work all_gather(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kAllGather;
  check_member(group, kThis);
  check_same_type(group, kThis, input, output);
  const auto sizes = block_counts(group, kThis, counts, input.count);
  check_count(group, kThis, "input", input.count,
              sizes[static_cast<std::size_t>(group.rank())]);
  const Blocks blocks(sizes, size_of(input.dtype));
  check_count(group, kThis, "output", output.bytes(), blocks.starts.back());
  const auto fingerprint = with_counts(
      make_fingerprint(kThis, input.dtype, output.count, options), counts);
  return group.core().submit(options.async, [=, &core = group.core()] {
    run_all_gather(core, blocks, bytes_of(input.data), bytes_of(output.data),
                   fingerprint, options.timeout);
  });
}

Work gather(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kGather;
  check_root(group, kThis, options.root);
  const auto sizes = block_counts(group, kThis, counts, input.count);
  check_count(group, kThis, "input", input.count,
              sizes[static_cast<std::size_t>(group.rank())]);
  const Blocks blocks(sizes, size_of(input.dtype));
  if (group.rank() == options.root) {
    check_same_type(group, kThis, input, output);
    check_count(group, kThis, "output", output.bytes(), blocks.starts.back());
  }
  const auto fingerprint = with_counts(
      make_fingerprint(kThis, input.dtype,
                       blocks.starts.back() / size_of(input.dtype), options),
      counts);
  return group.core().submit(options.async, [=, &core = group.core()] {
    run_gather(core, blocks, options.root, bytes_of(input.data),
               bytes_of(output.data), fingerprint, options.timeout);
  });
}

Work scatter(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kScatter;
  check_root(group, kThis, options.root);
  const auto sizes = block_counts(group, kThis, counts, output.count);
  check_count(group, kThis, "output", output.count,
              sizes[static_cast<std::size_t>(group.rank())]);
  const Blocks blocks(sizes, size_of(output.dtype));
  if (group.rank() == options.root) {
    check_same_type(group, kThis, input, output);
    check_count(group, kThis, "input", input.bytes(), blocks.starts.back());
  }
  const auto fingerprint = with_counts(
      make_fingerprint(kThis, output.dtype,
                       blocks.starts.back() / size_of(output.dtype), options),
      counts);
  return group.core().submit(options.async, [=, &core = group.core()] {
    run_scatter(core, blocks, options.root, bytes_of(input.data),
                bytes_of(output.data), fingerprint, options.timeout);
  });
}

}  // namespace sheaf::comm
