// Barrier, broadcast and reduce.

#include <cstring>

#include "sheaf/comm/algorithms/ordered.hpp"
#include "sheaf/comm/algorithms/pipeline.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/perform.hpp"

namespace sheaf::comm {
namespace {

void run(GroupCore& group, const PipelineJob& job,
         const Fingerprint& fingerprint, const CollectiveOptions& options) {
  const std::size_t bytes = job.count * size_of(job.reduction.dtype);
  const Choice choice = select_rooted(group, job.flow, bytes, options);
  const SharedBuffers mine =
      group.runtime().memory().shared(job.input, job.output, bytes);
  const bool is_small = choice.path == DataPath::kSmall;
  const bool gives = job.flow == Flow::kReduce || group.rank() == job.root;
  const void* payload = is_small ? static_cast<const void*>(job.input) : &mine;
  const std::size_t payload_bytes =
      is_small ? (gives ? bytes : 0) : sizeof mine;
  perform(group, fingerprint, options.timeout, payload, payload_bytes,
          [&](CollectiveCall& call) {
            if (choice.path == DataPath::kOrdered) {
              ordered_reduce(call, job.input, job.output, job.count,
                             job.reduction, job.root);
            } else if (!is_small) {
              Pipeline(call, job, choice.plan).run();
            } else if (job.flow == Flow::kBroadcast) {
              if (group.rank() != job.root && bytes)
                std::memcpy(job.output, call.payload(job.root, bytes), bytes);
            } else if (group.rank() == job.root) {
              std::vector<const void*> sources;
              for (int member = 0; member < call.local().size(); ++member)
                sources.push_back(call.payload(member, bytes));
              void* const outputs[] = {job.output};
              reduce(job.reduction, sources, outputs, job.count);
            }
          });
}

}  // namespace

Work barrier(const Group& group, const CollectiveOptions& options) {
  check_member(group, Operation::kBarrier);
  const Fingerprint fingerprint =
      make_fingerprint(Operation::kBarrier, DType::kU8, 0, options);
  return group.core().submit(options.async, [=, &core = group.core()] {
    if (core.size() == 1) return;
    // Arrival is a barrier within a host; between hosts, one byte is reduced.
    std::byte token[1] = {};
    const SharedBuffers none;
    perform(core, fingerprint, options.timeout, &none, sizeof none,
            [&](CollectiveCall& call) {
              if (core.host_map().host_count() == 1) return;
              PipelinePlan plan;
              plan.segment_bytes = 1;
              plan.outer_dims = {core.host_map().host_count()};
              plan.tier_algorithms = {TierAlgorithm::kTree};
              const PipelineJob job{
                  .flow = Flow::kAllReduce,
                  .root = 0,
                  .input = token,
                  .output = token,
                  .count = 1,
                  .reduction = {.dtype = DType::kU8, .op = ReduceOp::kBitOr}};
              Pipeline(call, job, plan).run();
            });
  });
}

Work broadcast(const Group& group, Buffer data,
               const CollectiveOptions& options) {
  check_root(group, Operation::kBroadcast, options.root);
  const Fingerprint fingerprint =
      make_fingerprint(Operation::kBroadcast, data.dtype, data.count, options);
  const PipelineJob job{.flow = Flow::kBroadcast,
                        .root = options.root,
                        .input = bytes_of(data.data),
                        .output = bytes_of(data.data),
                        .count = data.count,
                        .reduction = {.dtype = data.dtype}};
  return group.core().submit(options.async, [=, &core = group.core()] {
    if (core.size() > 1) run(core, job, fingerprint, options);
  });
}

Work reduce(const Group& group, ConstBuffer input, Buffer output,
            const CollectiveOptions& options) {
  check_root(group, Operation::kReduce, options.root);
  check_reduction(group, Operation::kReduce, options.op, input.dtype);
  const bool is_root = group.rank() == options.root;
  if (is_root) {
    check_same_type(group, Operation::kReduce, input, output);
    check_count(group, Operation::kReduce, "output", output.count, input.count);
  }
  const Fingerprint fingerprint =
      make_fingerprint(Operation::kReduce, input.dtype, input.count, options);
  const PipelineJob job{
      .flow = Flow::kReduce,
      .root = options.root,
      .input = bytes_of(input.data),
      .output = is_root ? bytes_of(output.data) : nullptr,
      .count = input.count,
      .reduction = {
          .dtype = input.dtype,
          .op = options.op,
          .divisor = options.op == ReduceOp::kAvg ? group.size() : 1}};
  return group.core().submit(options.async, [=, &core = group.core()] {
    if (core.size() > 1)
      run(core, job, fingerprint, options);
    else if (job.input != job.output && input.bytes())
      std::memcpy(job.output, job.input, input.bytes());
  });
}

}  // namespace sheaf::comm
