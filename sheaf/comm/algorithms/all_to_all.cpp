// All-to-all. Blocks for members of the host are read in shared memory; blocks
// for other hosts are sent directly to their receiver.
// Cost between hosts: each block is sent once; P-1 messages per rank.

#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/algorithms/host_streams.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/messages.hpp"
#include "sheaf/comm/group/perform.hpp"

namespace sheaf::comm {
namespace {

struct AllToAllJob {
  const std::byte* input;
  std::byte* output;
  // Sizes and start offsets, in bytes, of the blocks for and from each rank.
  std::vector<std::size_t> send_bytes;
  std::vector<std::size_t> send_starts;
  std::vector<std::size_t> receive_bytes;
  std::vector<std::size_t> receive_starts;
};

// Data sent by a member of this host: start of the block for this rank in the
// member's stream, size of the block, and size of the whole stream.
struct Shipment {
  std::size_t start;
  std::size_t bytes;
  std::size_t stream_bytes;
};

// With unequal counts the members exchange their tables; otherwise all tables
// are equal.
std::vector<Shipment> shipments(CollectiveCall& call, const AllToAllJob& job,
                                bool is_unequal) {
  const HostMap& host_map = call.host_map();
  const auto me = static_cast<std::size_t>(host_map.rank);
  const auto members = static_cast<std::size_t>(host_map.local_count());
  if (!is_unequal)
    return std::vector<Shipment>(
        members,
        {job.send_starts[me], job.send_bytes[me], job.send_starts.back()});
  std::vector<Shipment> result(members);
  Streams tables{
      .mine = reinterpret_cast<const std::byte*>(job.send_starts.data()),
      .bytes = std::vector<std::size_t>(
          members, job.send_starts.size() * sizeof(std::size_t)),
      .in_place = {}};
  std::vector<std::vector<std::byte>> copies(
      members, std::vector<std::byte>(tables.bytes.front()));
  exchange(
      call, tables, [&](Range window, std::span<const std::byte* const> at) {
        for (std::size_t i = 0; i < members; ++i)
          std::memcpy(copies[i].data() + window.begin, at[i], window.count);
      });
  for (std::size_t i = 0; i < members; ++i) {
    std::vector<std::size_t> starts(job.send_starts.size());
    std::memcpy(starts.data(), copies[i].data(), copies[i].size());
    result[i] = {starts[me], starts[me + 1] - starts[me], starts.back()};
  }
  return result;
}

void share(CollectiveCall& call, const AllToAllJob& job, bool is_unequal) {
  const HostMap& host_map = call.host_map();
  const auto sent = shipments(call, job, is_unequal);
  Streams streams{.mine = job.input, .bytes = {}, .in_place = {}};
  for (std::size_t i = 0; i < sent.size(); ++i) {
    streams.bytes.push_back(sent[i].stream_bytes);
    const int rank = host_map.local_ranks()[i];
    const std::size_t expected =
        job.receive_bytes[static_cast<std::size_t>(rank)];
    if (sent[i].bytes != expected)
      call.disagree(concat("all_to_all: rank ", rank, " sends ", sent[i].bytes,
                           " bytes to rank ", host_map.rank, ", which expects ",
                           expected));
  }
  find_in_place(call, streams);
  exchange(
      call, streams, [&](Range window, std::span<const std::byte* const> at) {
        for (std::size_t i = 0; i < sent.size(); ++i) {
          const Range part = overlap(window, sent[i].start, sent[i].bytes);
          const auto rank = static_cast<std::size_t>(host_map.local_ranks()[i]);
          if (part.count)
            std::memcpy(job.output + job.receive_starts[rank] +
                            (part.begin - sent[i].start),
                        at[i] + (part.begin - window.begin), part.count);
        }
      });
}

void run(CollectiveCall& call, const AllToAllJob& job, bool is_unequal) {
  const HostMap& host_map = call.host_map();
  Messages messages(call);
  for (int rank = 0; rank < host_map.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!host_map.is_local(rank))
      messages.receive(rank, job.output + job.receive_starts[r],
                       job.receive_bytes[r]);
  }
  for (int rank = 0; rank < host_map.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!host_map.is_local(rank))
      messages.send(rank, job.input + job.send_starts[r], job.send_bytes[r]);
  }
  share(call, job, is_unequal);
  messages.wait();
}

std::vector<std::size_t> in_bytes(std::vector<std::size_t> counts,
                                  std::size_t element) {
  for (auto& count : counts) count *= element;
  return counts;
}

}  // namespace

Work all_to_all(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options, Counts send_counts,
                Counts receive_counts) {
  constexpr auto kThis = Operation::kAllToAll;
  check_member(group, kThis);
  check_same_type(group, kThis, input, output);
  const bool is_unequal = !send_counts.empty() || !receive_counts.empty();
  const auto ranks = static_cast<std::size_t>(group.size());
  SHEAF_CHECK(is_unequal || input.count % ranks == 0, "rank ", group.rank(),
              ": all_to_all: ", input.count,
              " elements do not divide into blocks for ", ranks,
              " ranks; pass counts");
  SHEAF_CHECK(input.data != output.data || input.count == 0, "rank ",
              group.rank(), ": all_to_all does not work in place");
  const std::size_t element = size_of(input.dtype);
  AllToAllJob job{bytes_of(input.data), bytes_of(output.data), {}, {}, {}, {}};
  job.send_bytes = in_bytes(
      block_counts(group, kThis, send_counts, input.count / ranks), element);
  job.receive_bytes =
      in_bytes(block_counts(group, kThis, receive_counts, output.count / ranks),
               element);
  job.send_starts = block_starts(job.send_bytes);
  job.receive_starts = block_starts(job.receive_bytes);
  // A single rank copies its input without comparing sizes with a peer.
  if (!is_unequal || ranks == 1)
    check_count(group, kThis, "output", output.count, input.count);
  check_count(group, kThis, "input", input.count,
              job.send_starts.back() / element);
  check_count(group, kThis, "output", output.count,
              job.receive_starts.back() / element);
  auto fingerprint = make_fingerprint(kThis, input.dtype,
                                      is_unequal ? 0 : input.count, options);
  return group.core().submit(options.async, [=, &core = group.core()] {
    if (core.size() == 1) {
      if (input.bytes()) std::memcpy(job.output, job.input, input.bytes());
      return;
    }
    const SharedBuffers mine = core.runtime().memory().shared(
        job.input, /*output=*/nullptr, input.bytes());
    perform(core, fingerprint, options.timeout, &mine, sizeof mine,
            [&](CollectiveCall& call) { run(call, job, is_unequal); });
  });
}

}  // namespace sheaf::comm
