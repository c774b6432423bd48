#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/algorithms/ordered.hpp"
#include "sheaf/comm/algorithms/pipeline.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/choice/tuner.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/report/iteration_stats.hpp"

namespace sheaf::comm {
namespace {

struct ReduceJob {
  Operation operation;
  const std::byte* input;
  std::byte* output;
  std::size_t count;
  Reduction reduction;

  std::size_t bytes() const { return count * size_of(reduction.dtype); }
};

// The data of all ranks was passed on arrival: each rank reduces it itself, in
// rank order.
void reduce_small(CollectiveCall& call, const ReduceJob& job) {
  const int size = call.local().size();
  std::array<const void*, 64> few;
  std::vector<const void*> many;
  const void** sources = few.data();
  if (size > static_cast<int>(few.size())) {
    many.resize(static_cast<std::size_t>(size));
    sources = many.data();
  }
  for (int member = 0; member < size; ++member)
    sources[member] = call.payload(member, job.bytes());
  void* const outputs[] = {job.output};
  reduce(job.reduction, {sources, static_cast<std::size_t>(size)}, outputs,
         job.count);
}

void run_mpi(CollectiveCall& call, const ReduceJob& job) {
  GroupCore& group = call.group();
  Transport& transport = group.runtime().transport();
  SHEAF_CHECK(group.size() == transport.size(),
              "mode m and algorithm mpi support the world group only; group ",
              group.id(), " has ", group.size(), " of ", transport.size(),
              " ranks");
  LibraryAllReduce* library = transport.library_all_reduce();
  SHEAF_CHECK(
      library,
      "mode m and algorithm mpi need MPI; this world uses the transport ",
      transport.name());
  const auto by_mpi = [&](void* data, DType dtype) {
    library->run(LibraryAllReduce::Method::kReduceScatterAllGather, data,
                 job.count, dtype, job.reduction.op);
  };
  if (has_wide_partials(job.reduction)) {
    const auto sums = std::make_unique_for_overwrite<float[]>(job.count);
    const void* inputs[] = {job.input};
    reduce_to_partials(job.reduction, inputs, sums.get(), job.count);
    by_mpi(sums.get(), DType::kF32);
    const void* sources[] = {sums.get()};
    return reduce_partials(job.reduction, sources, job.output, job.count);
  }
  if (job.input != job.output) std::memcpy(job.output, job.input, job.bytes());
  by_mpi(job.output, job.reduction.dtype);
  const void* sources[] = {job.output};
  void* const outputs[] = {job.output};
  if (job.reduction.divisor > 1)
    reduce(job.reduction, sources, outputs, job.count);
}

PipelineTimes run_pipeline(CollectiveCall& call, const ReduceJob& job,
                           const PipelinePlan& plan) {
  const PipelineJob piped{.flow = Flow::kAllReduce,
                          .root = 0,
                          .input = job.input,
                          .output = job.output,
                          .count = job.count,
                          .reduction = job.reduction};
  return Pipeline(call, piped, plan).run();
}

// Only the pipeline measures its stages.
PipelineTimes run_choice(CollectiveCall& call, const ReduceJob& job,
                         const Choice& choice) {
  switch (choice.path) {
    case DataPath::kSmall:
      reduce_small(call, job);
      break;
    case DataPath::kOrdered:
      ordered_all_reduce(call, job.input, job.output, job.count, job.reduction);
      break;
    case DataPath::kMpi:
      run_mpi(call, job);
      break;
    case DataPath::kPipeline:
      return run_pipeline(call, job, choice.plan);
  }
  return {};
}

// Measures a call for the tuner and the statistics, if they need the times.
class Measurement {
 public:
  explicit Measurement(GroupCore& group)
      : tuner_(Tuner::of(group)),
        stats_(IterationStats::of(group)),
        is_on_(stats_.is_on() || tuner_.is_measuring()) {
    if (is_on_) times_.start_ns = now_ns();
  }

  void note_arrival(const CollectiveCall& call) {
    stats_.set_sequence(call.sequence());
    times_.waited_ns = call.waited_ns();
  }
  void note_pipeline(const PipelineTimes& times) { times_.pipeline = times; }

  void finish(const Choice& choice, const ReduceJob& job) {
    if (!is_on_) return;
    times_.end_ns = now_ns();
    if (tuner_.is_measuring()) tuner_.note(job.bytes(), times_.busy_ns());
    if (stats_.is_on())
      stats_.note(choice, job.reduction.dtype, job.bytes(), times_);
  }

 private:
  Tuner& tuner_;
  IterationStats& stats_;
  const bool is_on_;
  CallTimes times_;
};

void perform_choice(GroupCore& group, const ReduceJob& job,
                    const Choice& choice, const Fingerprint& fingerprint,
                    std::chrono::milliseconds timeout) {
  Measurement measurement(group);
  const SharedBuffers shared =
      group.runtime().memory().shared(job.input, job.output, job.bytes());
  const bool is_small = choice.path == DataPath::kSmall;
  const void* payload = &shared;
  if (is_small) payload = job.input;
  perform(group, fingerprint, timeout, payload,
          is_small ? job.bytes() : sizeof shared, [&](CollectiveCall& call) {
            measurement.note_arrival(call);
            measurement.note_pipeline(run_choice(call, job, choice));
          });
  measurement.finish(choice, job);
}

void run(GroupCore& group, const ReduceJob& job, const Fingerprint& fingerprint,
         const CollectiveOptions& options) {
  IterationStats::of(group).count_call();
  if (group.size() == 1) {
    if (job.input != job.output)
      std::memcpy(job.output, job.input, job.bytes());
    return;
  }
  const Choice choice =
      select_all_reduce(group, job.reduction.dtype, job.bytes(), options);
  perform_choice(group, job, choice, fingerprint, options.timeout);
}

Reduction reduction_for(const Group& group, DType dtype, ReduceOp op) {
  return {.dtype = dtype,
          .op = op,
          .divisor = op == ReduceOp::kAvg ? group.size() : 1};
}

}  // namespace

Work all_reduce(const Group& group, ConstBuffer input, Buffer output,
                const CollectiveOptions& options) {
  check_reduction(group, Operation::kAllReduce, options.op, input.dtype);
  check_same_type(group, Operation::kAllReduce, input, output);
  check_count(group, Operation::kAllReduce, "output", output.count,
              input.count);
  const ReduceJob job{Operation::kAllReduce, bytes_of(input.data),
                      bytes_of(output.data), input.count,
                      reduction_for(group, input.dtype, options.op)};
  const Fingerprint fingerprint = make_fingerprint(
      Operation::kAllReduce, input.dtype, input.count, options);
  return group.core().submit(options.async, [=, &core = group.core()] {
    run(core, job, fingerprint, options);
  });
}

Work all_reduce(const Group& group, Buffer data,
                const CollectiveOptions& options) {
  return all_reduce(group, data, data, options);
}

Work all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const CollectiveOptions& options) {
  check_member(group, Operation::kAllReduceN);
  if (buffers.empty()) return {};
  const DType dtype = buffers.front().dtype;
  check_reduction(group, Operation::kAllReduceN, options.op, dtype);
  std::size_t count = 0;
  std::uint32_t sizes = 0;  // part of the fingerprint
  for (const Buffer& buffer : buffers) {
    check_same_type(group, Operation::kAllReduceN, buffers.front(), buffer);
    count += buffer.count;
    sizes = sizes * 31 + static_cast<std::uint32_t>(buffer.count);
  }
  Fingerprint fingerprint =
      make_fingerprint(Operation::kAllReduceN, dtype, count, options);
  fingerprint.name_hash ^= sizes;
  std::vector<Buffer> list(buffers.begin(), buffers.end());
  return group.core().submit(
      options.async, [=, &core = group.core(), list = std::move(list),
                      reduction = reduction_for(group, dtype, options.op)] {
        // The buffers are copied into one block of the arena, reduced at once,
        // and copied back.
        const std::size_t bytes = count * size_of(dtype);
        Heap& heap = core.runtime().memory().heap();
        const std::unique_ptr<std::byte, std::function<void(std::byte*)>> fused(
            heap.allocate(bytes, /*commit=*/true),
            [&heap](std::byte* block) { heap.free(block); });
        std::byte* at = fused.get();
        for (const Buffer& buffer : list) {
          if (buffer.bytes()) std::memcpy(at, buffer.data, buffer.bytes());
          at += buffer.bytes();
        }
        run(core,
            {Operation::kAllReduceN, fused.get(), fused.get(), count,
             reduction},
            fingerprint, options);
        at = fused.get();
        for (const Buffer& buffer : list) {
          if (buffer.bytes()) std::memcpy(buffer.data, at, buffer.bytes());
          at += buffer.bytes();
        }
      });
}

}  // namespace sheaf::comm
