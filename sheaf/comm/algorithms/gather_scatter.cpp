// Gather, all-gather and scatter: blocks are moved without reduction. Members
// of a host read each other's blocks in shared memory; between hosts every
// block is sent once, directly from its owner. In an all-gather, the p members
// of a host divide the blocks of each other host among them: member l receives
// the blocks of its members l, l + p, l + 2p ..
//
// If only the root knows the sizes of the blocks, the size of every rank's
// block, 8 bytes, is exchanged first and compared with the root's before any
// block is moved.

#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/algorithms/host_streams.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/messages.hpp"
#include "sheaf/comm/group/perform.hpp"

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

// Published on arrival, for the members of the host.
struct SharedBlock {
  SharedBuffers buffers;
  std::uint64_t bytes = 0;  // size of this rank's block
};

// Copies one block per member of the host to `output`: the block of rank
// `ranks[member]`, or none if that is -1.
void share_blocks(CollectiveCall& call, const Blocks& blocks,
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

int delegate(const HostMap& host_map, int host, int rank) {
  const auto& members = host_map.hosts[static_cast<std::size_t>(host)];
  const int index = host_map.local_of[static_cast<std::size_t>(rank)];
  return members[static_cast<std::size_t>(index) % members.size()];
}

void all_gather_remote(CollectiveCall& call, const Blocks& blocks,
                       const std::byte* input, std::byte* output) {
  const HostMap& host_map = call.host_map();
  Messages messages(call);
  for (int rank = 0; rank < host_map.size(); ++rank)
    if (!host_map.is_local(rank) &&
        delegate(host_map, host_map.host, rank) == host_map.rank)
      messages.receive(rank, output + blocks.start(rank), blocks.size(rank));
  for (int host = 0; host < host_map.host_count(); ++host)
    if (host != host_map.host)
      messages.send(delegate(host_map, host, host_map.rank), input,
                    blocks.size(host_map.rank));
  messages.wait();
}

// Shares the blocks of other hosts, which the delegates on this host have
// received.
void share_remote(CollectiveCall& call, const Blocks& blocks,
                  std::byte* output) {
  const HostMap& host_map = call.host_map();
  const int here = host_map.local_count();
  for (int host = 0; host < host_map.host_count(); ++host) {
    if (host == host_map.host) continue;
    const auto& members = host_map.hosts[static_cast<std::size_t>(host)];
    for (std::size_t first = 0; first < members.size();
         first += static_cast<std::size_t>(here)) {
      std::vector<int> ranks(static_cast<std::size_t>(here), -1);
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (first + i < members.size()) ranks[i] = members[first + i];
      const int mine = ranks[static_cast<std::size_t>(host_map.local)];
      share_blocks(call, blocks, ranks,
                   mine < 0 ? output : output + blocks.start(mine), output,
                   /*in_place=*/false);
    }
  }
}

// One call: the blocks of all ranks, and the arguments of this rank.
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
  const SharedBuffers mine =
      group.runtime().memory().shared(move.input, /*output=*/nullptr, offered);
  perform(group, move.fingerprint, move.timeout, &mine, sizeof mine, body);
}

void run_all_gather(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  run(group, move, blocks.size(group.rank()), [&](CollectiveCall& call) {
    const HostMap& host_map = call.host_map();
    if (host_map.host_count() > 1)
      all_gather_remote(call, blocks, move.input, move.output);
    share_blocks(call, blocks, host_map.local_ranks(), move.input, move.output,
                 /*in_place=*/true);
    if (host_map.host_count() > 1) share_remote(call, blocks, move.output);
  });
}

void run_gather(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  const int me = group.rank();
  const bool is_root = me == move.root;
  run(group, move, blocks.size(me), [&](CollectiveCall& call) {
    const HostMap& host_map = call.host_map();
    Messages messages(call);
    for (int rank = 0; is_root && rank < host_map.size(); ++rank)
      if (!host_map.is_local(rank))
        messages.receive(rank, move.output + blocks.start(rank),
                         blocks.size(rank));
    if (host_map.is_local(move.root))
      share_blocks(call, blocks, host_map.local_ranks(), move.input,
                   is_root ? move.output : nullptr, /*in_place=*/true);
    else
      messages.send(move.root, move.input, blocks.size(me));
    messages.wait();
  });
}

// Members of the root's host copy their blocks from the root's buffer.
void scatter_local(CollectiveCall& call, const Move& move) {
  const HostMap& host_map = call.host_map();
  const std::size_t mine = move.blocks.start(host_map.rank);
  const auto root = static_cast<std::size_t>(
      host_map.local_of[static_cast<std::size_t>(move.root)]);
  Streams streams{.mine = move.input, .bytes = {}, .in_place = {}};
  streams.bytes.resize(static_cast<std::size_t>(host_map.local_count()));
  streams.bytes[root] = move.blocks.starts.back();
  find_in_place(call, streams);
  exchange(call, streams,
           [&](Range window, std::span<const std::byte* const> at) {
             const Range part =
                 overlap(window, mine, move.blocks.size(host_map.rank));
             copy(move.output + (part.begin - mine),
                  at[root] + (part.begin - window.begin), part.count);
           });
}

void run_scatter(GroupCore& group, const Move& move) {
  const Blocks& blocks = move.blocks;
  const int me = group.rank();
  const bool is_root = me == move.root;
  run(group, move, is_root ? blocks.starts.back() : 0,
      [&](CollectiveCall& call) {
        const HostMap& host_map = call.host_map();
        Messages messages(call);
        if (!host_map.is_local(move.root)) {
          messages.receive(move.root, move.output, blocks.size(me));
          return messages.wait();
        }
        for (int rank = 0; is_root && rank < host_map.size(); ++rank)
          if (!host_map.is_local(rank))
            messages.send(rank, move.input + blocks.start(rank),
                          blocks.size(rank));
        scatter_local(call, move);
        messages.wait();
      });
}

[[noreturn]] void disagree_about(CollectiveCall& call, const char* operation,
                                 int rank, std::size_t theirs,
                                 std::size_t at_root) {
  call.disagree(concat(operation, ": the block of ",
                       call.group().rank_text(rank), " has ", theirs,
                       " bytes, but the root has ", at_root,
                       " bytes for it; the root's counts must match those of "
                       "the ranks"));
}

// Stores the block sizes that the members of this host passed on arrival, by
// rank.
void take_local_sizes(CollectiveCall& call, Blocks& blocks) {
  for (int member = 0; member < call.local().size(); ++member) {
    SharedBlock theirs;
    std::memcpy(&theirs, call.payload(member, sizeof theirs), sizeof theirs);
    const int rank =
        call.host_map().local_ranks()[static_cast<std::size_t>(member)];
    blocks.sizes[static_cast<std::size_t>(rank)] = theirs.bytes;
  }
}

// On the root: the block sizes of the ranks must match the root's counts.
void compare_sizes(CollectiveCall& call, const Move& move) {
  Blocks given = move.blocks;
  take_local_sizes(call, given);
  Messages messages(call);
  std::vector<std::uint64_t> remote(given.sizes.size());
  for (int rank = 0; rank < call.host_map().size(); ++rank)
    if (!call.host_map().is_local(rank))
      messages.receive(rank, &remote[static_cast<std::size_t>(rank)],
                       sizeof remote.front());
  messages.wait();
  for (int rank = 0; rank < call.host_map().size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (!call.host_map().is_local(rank)) given.sizes[index] = remote[index];
    if (given.size(rank) != move.blocks.size(rank))
      disagree_about(call, "gather", rank, given.size(rank),
                     move.blocks.size(rank));
  }
}

void run_gatherv(GroupCore& group, const Move& move) {
  const int me = group.rank();
  const bool is_root = me == move.root;
  if (group.size() == 1)
    return copy(move.output, move.input, move.blocks.size(0));
  const std::uint64_t mine = move.blocks.size(me);
  const SharedBlock shared{
      group.runtime().memory().shared(move.input, /*output=*/nullptr, mine),
      mine};
  const auto body = [&](CollectiveCall& call) {
    const HostMap& host_map = call.host_map();
    if (is_root) compare_sizes(call, move);
    Messages messages(call);
    for (int rank = 0; is_root && rank < host_map.size(); ++rank)
      if (!host_map.is_local(rank))
        messages.receive(rank, move.output + move.blocks.start(rank),
                         move.blocks.size(rank));
    if (host_map.is_local(move.root)) {
      Blocks blocks = move.blocks;  // incomplete except on the root
      take_local_sizes(call, blocks);
      share_blocks(call, blocks, host_map.local_ranks(), move.input,
                   is_root ? move.output : nullptr, /*in_place=*/true);
    } else {
      messages.send(move.root, &mine, sizeof mine);
      messages.send(move.root, move.input, mine);
    }
    messages.wait();
  };
  perform(group, move.fingerprint, move.timeout, &shared, sizeof shared, body);
}

// Copies the root's table of start offsets to the members of its host.
std::vector<std::size_t> share_starts(CollectiveCall& call, const Move& move,
                                      std::size_t root) {
  std::vector<std::size_t> starts = move.blocks.starts;
  Streams table{
      .mine = reinterpret_cast<const std::byte*>(move.blocks.starts.data()),
      .bytes = {},
      .in_place = {}};
  table.bytes.resize(static_cast<std::size_t>(call.host_map().local_count()));
  table.bytes[root] = starts.size() * sizeof(std::size_t);
  exchange(
      call, table, [&](Range window, std::span<const std::byte* const> at) {
        std::memcpy(reinterpret_cast<std::byte*>(starts.data()) + window.begin,
                    at[root], window.count);
      });
  return starts;
}

void run_scatterv(GroupCore& group, const Move& move) {
  const int me = group.rank();
  const std::size_t mine = move.blocks.size(me);
  const bool is_root = me == move.root;
  const auto body = [&](CollectiveCall& call) {
    const HostMap& host_map = call.host_map();
    if (!host_map.is_local(move.root)) {
      std::uint64_t bytes = 0;
      Messages size(call);
      size.receive(move.root, &bytes, sizeof bytes);
      size.wait();
      if (bytes != mine) disagree_about(call, "scatter", me, mine, bytes);
      Messages contents(call);
      contents.receive(move.root, move.output, mine);
      return contents.wait();
    }
    const std::vector<std::uint64_t> sizes(move.blocks.sizes.begin(),
                                           move.blocks.sizes.end());
    Messages messages(call);
    for (int rank = 0; is_root && rank < host_map.size(); ++rank) {
      if (host_map.is_local(rank)) continue;
      messages.send(rank, &sizes[static_cast<std::size_t>(rank)],
                    sizeof sizes.front());
      messages.send(rank, move.input + move.blocks.start(rank),
                    move.blocks.size(rank));
    }
    Move here = move;
    here.blocks.starts = share_starts(
        call, move,
        static_cast<std::size_t>(
            host_map.local_of[static_cast<std::size_t>(move.root)]));
    const auto index = static_cast<std::size_t>(me);
    const std::size_t given =
        here.blocks.starts[index + 1] - here.blocks.starts[index];
    if (given != mine) disagree_about(call, "scatter", me, mine, given);
    scatter_local(call, here);
    messages.wait();
  };
  run(group, move, is_root ? move.blocks.starts.back() : 0, body);
}

// Unequal sizes are part of the fingerprint, so all ranks must pass the same.
Fingerprint with_counts(Fingerprint fingerprint, Counts counts) {
  for (const std::size_t count : counts)
    fingerprint.name_hash =
        fingerprint.name_hash * 31 + static_cast<std::uint32_t>(count);
  return fingerprint;
}

// Every rank has one block. The buffer of all blocks, in rank order, is on the
// root or, in an all-gather, on every rank.
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

// For blocks whose sizes only the root knows. Other ranks know only the size of
// their own block, and the fingerprint has no count.
Move prepare_uneven(const Group& group, Operation operation,
                    const ConstBuffer& input, const Buffer& output,
                    const CollectiveOptions& options, Counts counts) {
  check_root(group, operation, options.root);
  const bool is_scatter = operation == Operation::kScatter;
  const ConstBuffer block = is_scatter ? ConstBuffer(output) : input;
  const ConstBuffer all = is_scatter ? input : ConstBuffer(output);
  const auto me = static_cast<std::size_t>(group.rank());
  std::vector<std::size_t> sizes(static_cast<std::size_t>(group.size()));
  if (group.rank() == options.root) {
    SHEAF_CHECK(!counts.empty(), "rank ", group.rank(), ": ",
                name_of(operation),
                ": the root must pass the size of every rank's block");
    sizes = block_counts(group, operation, counts, /*each=*/0);
    check_same_type(group, operation, input, output);
    check_count(group, operation, is_scatter ? "input" : "output", all.count,
                block_starts(sizes).back());
    check_count(group, operation, is_scatter ? "output" : "input", block.count,
                sizes[me]);
  }
  sizes[me] = block.count;
  auto fingerprint = make_fingerprint(operation, block.dtype, 0, options);
  fingerprint.name_hash = fingerprint.name_hash * 31 + hash_name("uneven");
  return {.blocks = Blocks(sizes, size_of(block.dtype)),
          .input = bytes_of(input.data),
          .output = bytes_of(output.data),
          .root = options.root,
          .fingerprint = fingerprint,
          .timeout = options.timeout};
}

}  // namespace

Work gatherv(const Group& group, ConstBuffer input, Buffer output,
             const CollectiveOptions& options, Counts counts) {
  const Move move =
      prepare_uneven(group, Operation::kGather, input, output, options, counts);
  return group.core().submit(
      options.async, [move, &core = group.core()] { run_gatherv(core, move); });
}

Work scatterv(const Group& group, ConstBuffer input, Buffer output,
              const CollectiveOptions& options, Counts counts) {
  const Move move = prepare_uneven(group, Operation::kScatter, input, output,
                                   options, counts);
  return group.core().submit(options.async, [move, &core = group.core()] {
    run_scatterv(core, move);
  });
}

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
