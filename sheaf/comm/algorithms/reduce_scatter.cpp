// Reduce-scatter. Within a host, each member reduces its own block over the
// inputs of all members. With several hosts, the members also divide the blocks
// of ranks on other hosts among them: each block is reduced over the host by
// one member and sent to its owner, which adds the sums in host order. Sums of
// 16-bit floats are sent in f32, as in pipeline.cpp.
// Bytes between hosts: a host sends the blocks of all others once.

#include <cstring>

#include "sheaf/comm/algorithms/host_streams.hpp"
#include "sheaf/comm/algorithms/ordered.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/messages.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {
namespace {

struct Job {
  const std::byte* input;
  std::byte* output;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> starts;  // in elements
  Reduction reduction;

  std::size_t element() const { return size_of(reduction.dtype); }
  std::vector<Range> blocks() const {
    std::vector<Range> list;
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      list.push_back({starts[rank], counts[rank]});
    return list;
  }
  std::size_t start(int rank) const {
    return starts[static_cast<std::size_t>(rank)] * element();
  }
  std::size_t size(int rank) const {
    return counts[static_cast<std::size_t>(rank)] * element();
  }
};

// The member of this host that reduces the block of `rank`.
int worker(const HostMap& host_map, int rank) {
  const int member = host_map.is_local(rank)
                         ? host_map.local_of[static_cast<std::size_t>(rank)]
                         : rank % host_map.local_count();
  return host_map.local_ranks()[static_cast<std::size_t>(member)];
}

class ReduceScatter {
 public:
  ReduceScatter(CollectiveCall& call, const Job& job)
      : call_(call),
        host_map_(call.host_map()),
        job_(job),
        is_one_host_(host_map_.host_count() == 1),
        is_wide_(!is_one_host_ && has_wide_partials(job.reduction)) {
    for (int rank = 0; rank < host_map_.size(); ++rank)
      if (worker(host_map_, rank) == host_map_.rank)
        sums_.push_back({rank, std::vector<std::byte>(sum_bytes(rank))});
  }

  void run() {
    reduce_host();
    if (is_one_host_)
      copy_out();
    else
      reduce_hosts();
  }

 private:
  struct Sum {
    int rank;
    std::vector<std::byte> bytes;
  };

  std::size_t sum_element() const {
    return is_wide_ ? sizeof(float) : job_.element();
  }
  std::size_t sum_bytes(int rank) const {
    return job_.size(rank) / job_.element() * sum_element();
  }

  // Sums the blocks assigned to this member over the members of this host.
  void reduce_host() {
    Reduction how = job_.reduction;
    if (!is_one_host_) how.divisor = 1;
    Streams streams{.mine = job_.input, .bytes = {}, .in_place = {}};
    streams.bytes.assign(static_cast<std::size_t>(host_map_.local_count()),
                         job_.starts.back() * job_.element());
    find_in_place(call_, streams);
    exchange(call_, streams,
             [&](Range window, std::span<const std::byte* const> at) {
               for (Sum& sum : sums_) reduce_part(how, window, at, sum);
             });
  }

  void reduce_part(const Reduction& how, Range window,
                   std::span<const std::byte* const> at, Sum& sum) {
    const Range part =
        overlap(window, job_.start(sum.rank), job_.size(sum.rank));
    if (part.count == 0) return;
    std::vector<const void*> sources;
    for (const std::byte* begin : at)
      sources.push_back(begin + (part.begin - window.begin));
    const std::size_t first =
        (part.begin - job_.start(sum.rank)) / job_.element();
    const std::size_t count = part.count / job_.element();
    std::byte* to = sum.bytes.data() + first * sum_element();
    if (is_wide_)
      return reduce_to_partials(how, sources, reinterpret_cast<float*>(to),
                                count);
    void* const outputs[] = {to};
    reduce(how, sources, outputs, count);
  }

  void copy_out() {
    if (!sums_.front().bytes.empty())
      std::memcpy(job_.output, sums_.front().bytes.data(),
                  sums_.front().bytes.size());
  }

  void reduce_hosts() {
    const std::size_t mine = sum_bytes(host_map_.rank);
    const auto hosts = static_cast<std::size_t>(host_map_.host_count());
    std::vector<std::byte> incoming(mine * hosts);
    std::vector<const void*> sources;
    Messages messages(call_);
    for (int host = 0; host < host_map_.host_count(); ++host) {
      std::byte* to = incoming.data() + static_cast<std::size_t>(host) * mine;
      sources.push_back(to);
      if (host != host_map_.host)
        messages.receive(worker_elsewhere(host), to, mine);
    }
    for (const Sum& sum : sums_) {
      if (sum.rank == host_map_.rank)
        sources[static_cast<std::size_t>(host_map_.host)] = sum.bytes.data();
      else
        messages.send(sum.rank, sum.bytes.data(), sum.bytes.size());
    }
    messages.wait();
    const std::size_t count = mine / sum_element();
    if (is_wide_)
      return reduce_partials(job_.reduction, sources, job_.output, count);
    void* const outputs[] = {job_.output};
    reduce(job_.reduction, sources, outputs, count);
  }

  int worker_elsewhere(int host) const {
    const auto& members = host_map_.hosts[static_cast<std::size_t>(host)];
    return members[static_cast<std::size_t>(host_map_.rank) % members.size()];
  }

  CollectiveCall& call_;
  const HostMap& host_map_;
  const Job& job_;
  const bool is_one_host_;
  const bool is_wide_;
  std::vector<Sum> sums_;
};

}  // namespace

Work reduce_scatter(const Group& group, ConstBuffer input, Buffer output,
                    const CollectiveOptions& options, Counts counts) {
  constexpr auto kThis = Operation::kReduceScatter;
  check_reduction(group, kThis, options.op, input.dtype);
  check_same_type(group, kThis, input, output);
  auto sizes = block_counts(group, kThis, counts, output.count);
  auto starts = block_starts(sizes);
  check_count(group, kThis, "output", output.count,
              sizes[static_cast<std::size_t>(group.rank())]);
  check_count(group, kThis, "input", input.count, starts.back());
  const Job job{bytes_of(input.data),
                bytes_of(output.data),
                std::move(sizes),
                std::move(starts),
                {.dtype = input.dtype,
                 .op = options.op,
                 .divisor = options.op == ReduceOp::kAvg ? group.size() : 1}};
  auto fingerprint = make_fingerprint(kThis, input.dtype, input.count, options);
  for (const std::size_t count : counts)
    fingerprint.name_hash =
        fingerprint.name_hash * 31 + static_cast<std::uint32_t>(count);
  return group.core().submit(options.async, [=, &core = group.core()] {
    if (core.size() == 1) {
      if (job.output != job.input && job.size(0))
        std::memcpy(job.output, job.input, job.size(0));
      return;
    }
    const SharedBuffers mine = core.runtime().memory().shared(
        job.input, /*output=*/nullptr, input.bytes());
    perform(core, fingerprint, options.timeout, &mine, sizeof mine,
            [&](CollectiveCall& call) {
              if (is_reproducible(core, options) &&
                  core.host_map().host_count() > 1)
                ordered_reduce_scatter(call, job.input, job.output,
                                       job.blocks(), job.reduction);
              else
                ReduceScatter(call, job).run();
            });
  });
}

}  // namespace sheaf::comm
