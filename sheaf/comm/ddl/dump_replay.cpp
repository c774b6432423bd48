#include "sheaf/comm/ddl/dump_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {
namespace {

using Inputs = std::vector<const void*>;

// The inputs of all ranks, or empty if the dump of a rank is missing.
Inputs whole_inputs(std::span<const Dump> dumps) {
  Inputs inputs(static_cast<std::size_t>(dumps[0].size()), nullptr);
  for (const Dump& dump : dumps) {
    SHEAF_CHECK(is_same_call(dumps[0], dump), "the dumps of rank ",
                dumps[0].rank, " and rank ", dump.rank,
                " are of different calls: ", describe(dumps[0].call), " and ",
                describe(dump.call), "; pass dumps of one call");
    const auto rank = static_cast<std::size_t>(dump.rank);
    SHEAF_CHECK(rank < inputs.size() && !inputs[rank], "rank ", dump.rank,
                " is given twice, or is not among the ", inputs.size(),
                " ranks of the call");
    inputs[rank] = dump.input.data();
  }
  const bool has_all = dumps.size() == inputs.size();
  return has_all ? inputs : Inputs{};
}

Inputs window_inputs(const Dump& dump) {
  Inputs inputs;
  const std::size_t bytes = dump.window_count * size_of(dump.call.dtype);
  for (int rank = 0; rank < dump.size(); ++rank)
    inputs.push_back(dump.window.data() +
                     static_cast<std::size_t>(rank) * bytes);
  return inputs;
}

DumpedElement element_of(const CheckRule& rule, const Inputs& inputs,
                         const void* output, const void* replayed,
                         std::size_t index) {
  DumpedElement element;
  element.found = examine(rule, inputs, output, index);
  element.replayed = value_at(rule.dtype, replayed, index);
  for (const void* input : inputs)
    element.inputs.push_back(value_at(rule.dtype, input, index));
  return element;
}

}  // namespace

bool is_same_call(const Dump& a, const Dump& b) {
  return a.group == b.group && a.iteration == b.iteration && a.call == b.call &&
         a.counts == b.counts && a.hosts == b.hosts;
}

Replay replay(std::span<const Dump> dumps, std::size_t most_wrong) {
  SHEAF_CHECK(!dumps.empty(), "there is no dump to replay");
  const Dump& dump = dumps[0];
  const CheckRule rule = dump.rule();
  Inputs inputs = whole_inputs(dumps);
  Replay result;
  result.is_whole = !inputs.empty();
  result.count = result.is_whole ? dump.call.count : dump.window_count;
  if (!result.is_whole) {
    inputs = window_inputs(dump);
    result.first = dump.window_first;
  }
  const std::size_t element = size_of(rule.dtype);
  const std::byte* output = dump.output.data() + result.first * element;
  std::vector<std::byte> again(result.count * element);
  void* const outputs[] = {again.data()};
  reduce({.dtype = rule.dtype,
          .op = rule.op,
          .divisor = rule.op == ReduceOp::kAvg ? dump.size() : 1},
         inputs, outputs, result.count);
  result.output = verify(rule, inputs, output, result.count, result.first);
  result.replayed =
      verify(rule, inputs, again.data(), result.count, result.first);
  for (std::size_t i = 0; i < result.count; ++i) {
    const std::size_t at = i * element;
    if (std::memcmp(output + at, again.data() + at, element) != 0)
      ++result.different_bits;
    if (result.wrong.size() == most_wrong) continue;
    auto found = element_of(rule, inputs, output, again.data(), i);
    if (found.found.fault == Fault::kNone) continue;
    found.found.element += result.first;
    result.wrong.push_back(std::move(found));
  }
  return result;
}

std::string Replay::conclusion(const Dump& dump) const {
  if (output.is_good() && dump.verdict.is_good())
    return fmt::format(
        "the output of rank {} agrees with the reference; the error is on "
        "rank {}",
        dump.rank, dump.worst_rank);
  if (output.is_good())
    return fmt::format(
        "the output of rank {} agrees with the reference here; it is wrong "
        "elsewhere",
        dump.rank);
  if (replayed.is_good())
    return fmt::format(
        "the replay agrees with the reference, the output of rank {} does "
        "not: the error is not in the arithmetic of {}, but in the exchanged "
        "data or in memory",
        dump.rank, name_of(dump.call.dtype));
  return fmt::format(
      "neither the output of rank {} nor the replay agrees with the "
      "reference: {} is too narrow for these inputs, or check {} is too strict",
      dump.rank, name_of(dump.call.dtype), dump.check);
}

ElementStatistics statistics_of(DType dtype,
                                const std::vector<std::byte>& data) {
  ElementStatistics statistics;
  statistics.count = data.size() / size_of(dtype);
  double sum = 0;
  std::uint64_t finite = 0;
  for (std::size_t i = 0; i < statistics.count; ++i) {
    const double value = value_at(dtype, data.data(), i);
    if (std::isnan(value)) {
      ++statistics.nan;
    } else if (std::isinf(value)) {
      ++statistics.infinite;
    } else {
      statistics.min = finite ? std::min(statistics.min, value) : value;
      statistics.max = finite ? std::max(statistics.max, value) : value;
      sum += value;
      ++finite;
    }
  }
  if (finite) statistics.mean = sum / static_cast<double>(finite);
  return statistics;
}

}  // namespace sheaf::comm
