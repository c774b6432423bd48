// Each rank keeps a copy of its input, reduces, and then verifies its own
// output: segment by segment, the inputs of all ranks are gathered and reduced
// again in higher precision. The verdicts are exchanged last, so that all ranks
// reach the same result.

#include "sheaf/comm/ddl/checked_all_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sheaf/base/log.hpp"
#include "sheaf/comm/ddl/dump.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/report/iteration_stats.hpp"

namespace sheaf::comm {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kGatherBytes = std::size_t{8} << 20;  // of all ranks
constexpr std::size_t kWindowElements = 1024;
constexpr std::size_t kInputsNamed = 8;

// Concatenates all buffers.
Bytes joined(std::span<const Buffer> buffers) {
  Bytes bytes;
  for (const Buffer& buffer : buffers)
    bytes.insert(bytes.end(), bytes_of(buffer.data),
                 bytes_of(buffer.data) + buffer.bytes());
  return bytes;
}

// The inputs of all ranks for a range of elements.
class GatheredInputs {
 public:
  GatheredInputs(const Group& group, const Bytes& mine, DType dtype)
      : group_(group), mine_(mine), element_(size_of(dtype)) {}

  std::size_t elements_at_once() const {
    const std::size_t all = element_ * static_cast<std::size_t>(group_.size());
    return std::max<std::size_t>(1, kGatherBytes / all);
  }
  // Collective: all ranks must call it with the same range.
  void gather(std::size_t first, std::size_t count) {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const std::size_t bytes = count * element_;
    all_.resize(bytes * ranks);
    all_gather(group_,
               ConstBuffer(mine_.data() + first * element_, bytes, DType::kU8),
               Buffer(all_.data(), all_.size(), DType::kU8), {.name = "check"})
        .wait();
    at_.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank)
      at_.push_back(all_.data() + rank * bytes);
  }
  std::span<const void* const> by_rank() const { return at_; }
  const Bytes& all() const { return all_; }

 private:
  const Group& group_;
  const Bytes& mine_;
  const std::size_t element_;
  Bytes all_;
  std::vector<const void*> at_;
};

Verdict verify_all(const CheckRule& rule, GatheredInputs& inputs,
                   const Bytes& output) {
  const std::size_t count = output.size() / size_of(rule.dtype);
  Verdict verdict;
  for (std::size_t first = 0; first < count;) {
    const std::size_t part = std::min(inputs.elements_at_once(), count - first);
    inputs.gather(first, part);
    verdict = merge(verdict, verify(rule, inputs.by_rank(),
                                    output.data() + first * size_of(rule.dtype),
                                    part, first));
    first += part;
  }
  return verdict;
}

std::vector<Verdict> gather_verdicts(const Group& group, const Verdict& mine) {
  std::vector<Verdict> all(static_cast<std::size_t>(group.size()));
  all_gather(group, ConstBuffer(&mine, sizeof mine, DType::kU8),
             Buffer(all.data(), all.size() * sizeof mine, DType::kU8),
             {.name = "check: verdicts"})
      .wait();
  return all;
}

int worst_rank_of(const std::vector<Verdict>& verdicts) {
  const auto worst = std::max_element(
      verdicts.begin(), verdicts.end(), [](const auto& a, const auto& b) {
        return a.worst.badness() < b.worst.badness();
      });
  return static_cast<int>(worst - verdicts.begin());
}

Dump describe_call(const Group& group, std::span<const Buffer> buffers,
                   const CheckedCall& call) {
  GroupCore& core = group.core();
  Runtime& runtime = core.runtime();
  Dump dump;
  dump.rank = group.rank();
  dump.world_rank = runtime.rank();
  dump.group = group.id();
  dump.check = call.check;
  for (const Buffer& buffer : buffers) dump.counts.push_back(buffer.count);
  std::uint64_t count = 0;
  for (const auto part : dump.counts) count += part;
  dump.call = make_fingerprint(call.operation, buffers.front().dtype, count,
                               {.op = call.op});
  // Read in a job, since other jobs may be running on the group's thread.
  core.submit(/*async=*/false,
              [&] {
                dump.iteration = IterationStats::of(core).calls();
                dump.call.sequence = IterationStats::of(core).sequence();
              })
      .wait();
  for (const auto& members : core.host_map().hosts) {
    const auto world_rank =
        static_cast<std::size_t>(core.world_rank(members.front()));
    const auto host =
        static_cast<std::size_t>(runtime.host_map().host_of[world_rank]);
    dump.hosts.push_back({runtime.host_names()[host], members});
  }
  dump.options = topo::text_of(runtime.options());
  dump.transport = runtime.transport().name();
  return dump;
}

// Adds the inputs of all ranks around the worst element. Collective.
void add_window(Dump& dump, GatheredInputs& inputs) {
  const std::uint64_t count = std::min<std::uint64_t>(
      {kWindowElements, inputs.elements_at_once(), dump.call.count});
  const std::uint64_t before = std::min(dump.worst.element, count / 2);
  dump.window_first =
      std::min(dump.worst.element - before, dump.call.count - count);
  dump.window_count = count;
  inputs.gather(dump.window_first, count);
  dump.window = inputs.all();
}

std::string inputs_text(const Dump& dump) {
  std::string text;
  const auto ranks = static_cast<std::size_t>(dump.size());
  const std::size_t index = dump.worst.element - dump.window_first;
  for (std::size_t r = 0; r < std::min(ranks, kInputsNamed); ++r)
    text += fmt::format("{}{:.9g} (rank {})", r ? ", " : "",
                        value_at(dump.call.dtype, dump.window.data(),
                                 r * dump.window_count + index),
                        r);
  if (ranks > kInputsNamed)
    text += fmt::format(" and {} more", ranks - kInputsNamed);
  return text;
}

// The text is the same on all ranks.
std::string failure_text(const Group& group, const Dump& dump,
                         const std::vector<Verdict>& verdicts) {
  std::uint64_t wrong = 0;
  int wrong_ranks = 0;
  for (const Verdict& verdict : verdicts) {
    wrong += verdict.wrong;
    wrong_ranks += verdict.is_good() ? 0 : 1;
  }
  const auto path =
      dump_path(group.world_rank(dump.worst_rank), dump.iteration, dump.group);
  return fmt::format(
      "{} in group {} is wrong: {} elements on {} of {} ranks; the worst is "
      "element {} on rank {}: {}; its inputs are {}; see sheaf dump show {}",
      describe(dump.call), dump.group, wrong, wrong_ranks, dump.size(),
      dump.worst.element, dump.worst_rank, describe(dump.worst),
      inputs_text(dump), path.string());
}

void try_to_write(const Dump& dump) {
  try {
    write_dump(dump, dump_path(dump.world_rank, dump.iteration, dump.group));
  } catch (const IoError& error) {
    log_error("cannot write the dump of the failed check: {}", error.what());
  }
}

void report_nan_inputs(const Group& group, const Verdict& verdict) {
  if (verdict.nan_inputs == 0 || group.rank() != 0) return;
  log_warn(
      "check: {} of {} elements have NaN among their inputs, the first "
      "is element {}",
      verdict.nan_inputs, verdict.checked, verdict.first_nan_input);
}

[[noreturn]] void fail(const Group& group, Dump dump,
                       const std::vector<Verdict>& verdicts,
                       GatheredInputs& inputs) {
  dump.worst_rank = worst_rank_of(verdicts);
  dump.worst = verdicts[static_cast<std::size_t>(dump.worst_rank)].worst;
  add_window(dump, inputs);
  try_to_write(dump);
  throw CheckError(failure_text(group, dump, verdicts));
}

}  // namespace

void checked(const Group& group, std::span<const Buffer> buffers,
             const CheckedCall& call, const std::function<void()>& reduce) {
  check_member(group, call.operation);
  if (buffers.empty()) return reduce();
  const CheckRule rule{buffers.front().dtype, call.op, call.check};
  validate(rule);
  const Bytes input = joined(buffers);
  reduce();
  Dump dump = describe_call(group, buffers, call);
  dump.output = joined(buffers);
  GatheredInputs inputs(group, input, rule.dtype);
  dump.verdict = verify_all(rule, inputs, dump.output);
  report_nan_inputs(group, dump.verdict);
  const auto verdicts = gather_verdicts(group, dump.verdict);
  if (std::all_of(verdicts.begin(), verdicts.end(),
                  [](const Verdict& v) { return v.is_good(); }))
    return;
  dump.input = input;
  fail(group, std::move(dump), verdicts, inputs);
}

}  // namespace sheaf::comm
