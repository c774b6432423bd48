#include "sheaf/comm/kernels/reduce_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_loops_table.hpp"

namespace sheaf::comm {
namespace {

constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames{
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor"};

#if defined(__x86_64__) || defined(__i386__)
// __builtin_cpu_supports of Clang 14 does not support F16C.
bool has_f16c() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && has_f16c();
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}
#else
bool has_avx2() noexcept { return false; }
bool has_avx512() noexcept { return false; }
#endif

struct Tables {
  std::array<const ReduceTable*, 3> list{baseline_table()};
  std::size_t count = 1;

  Tables() noexcept {
    if (has_avx2()) add(avx2_table());
    if (has_avx512()) add(avx512_table());
  }
  void add(const ReduceTable* table) noexcept {
    if (table) list[count++] = table;
  }
};

void check(const Reduction& how, std::size_t sources) {
  SHEAF_CHECK(is_defined(how.op, how.dtype), "reduction '", name_of(how.op),
              "' is not defined for element type '", name_of(how.dtype),
              "'; bool has no avg, and the bitwise reductions need integers "
              "or bool");
  SHEAF_CHECK(sources > 0, "reduction '", name_of(how.op), "' of '",
              name_of(how.dtype), "' has no input; pass at least one");
  SHEAF_CHECK(how.divisor >= 1, "the divisor of a reduction is ", how.divisor,
              "; it must be at least 1");
  const bool can_divide =
      how.dtype != DType::kBool &&
      (how.op == ReduceOp::kSum || how.op == ReduceOp::kAvg);
  SHEAF_CHECK(how.divisor == 1 || can_divide, "reduction '", name_of(how.op),
              "' of '", name_of(how.dtype), "' cannot be divided by ",
              how.divisor, "; only sums and averages of numbers can");
}

void copy(const void* source, std::span<void* const> outputs,
          std::size_t bytes) {
  for (void* output : outputs)
    if (output != source && bytes > 0) std::memcpy(output, source, bytes);
}

// A result of this size is evicted from the caches before it is read. Writing
// it with streaming stores and then reading it once took 0.85 to 1 times as
// long at 64 MiB (two and four sources), but up to 1.25 times as long at 4 MiB,
// on a machine with 2 MiB of cache per core.
constexpr std::size_t kStreamBytes = std::size_t{32} << 20;

bool should_stream(std::span<const void* const> sources,
                   std::span<void* const> outputs, std::size_t bytes) {
  if (bytes < kStreamBytes) return false;
  for (const void* output : outputs)
    if (std::find(sources.begin(), sources.end(), output) != sources.end())
      return false;
  return true;
}

const ReduceTable& widest_table() noexcept {
  static const ReduceTable& table = *supported_tables().back();
  return table;
}

const ReduceTable::Partials& partials_of(const Reduction& how) {
  SHEAF_ASSERT(has_wide_partials(how), name_of(how.op), " of ",
               name_of(how.dtype));
  return widest_table().partials[how.dtype == DType::kF16 ? 0 : 1];
}

}  // namespace

std::string_view name_of(ReduceOp op) noexcept {
  return kReduceOpNames[static_cast<std::size_t>(op)];
}

ReduceOp parse_reduce_op(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kReduceOpNames.size(); ++i) {
    if (kReduceOpNames[i] == name) return static_cast<ReduceOp>(i);
    known += (i ? ", " : "") + std::string(kReduceOpNames[i]);
  }
  throw UsageError(
      concat("unknown reduction '", name, "'; use one of ", known));
}

bool is_defined(ReduceOp op, DType dtype) noexcept {
  if (op == ReduceOp::kAvg) return dtype != DType::kBool;
  if (op >= ReduceOp::kBitAnd) return !is_float(dtype);
  return true;
}

std::span<const ReduceTable* const> supported_tables() noexcept {
  static const Tables tables;
  return {tables.list.data(), tables.count};
}

void reduce(const Reduction& how, std::span<const void* const> sources,
            std::span<void* const> outputs, std::size_t count) {
  check(how, sources.size());
  if (sources.size() == 1 && how.divisor == 1)
    return copy(sources[0], outputs, count * size_of(how.dtype));
  if (outputs.empty()) return;
  const auto& row =
      widest_table().functions[static_cast<std::size_t>(how.dtype)];
  row[static_cast<std::size_t>(how.op)](
      {.sources = sources.data(),
       .source_count = sources.size(),
       .outputs = outputs.data(),
       .output_count = outputs.size(),
       .count = count,
       .divisor = how.divisor,
       .stream = should_stream(sources, outputs, count * size_of(how.dtype))});
}

bool has_wide_partials(const Reduction& how) {
  return is_half(how.dtype) &&
         (how.op == ReduceOp::kSum || how.op == ReduceOp::kAvg ||
          how.op == ReduceOp::kProduct);
}

void reduce_to_partials(const Reduction& how,
                        std::span<const void* const> sources, float* output,
                        std::size_t count) {
  check(how, sources.size());
  void* const outputs[] = {output};
  partials_of(how).made[static_cast<std::size_t>(how.op)](
      {.sources = sources.data(),
       .source_count = sources.size(),
       .outputs = outputs,
       .output_count = 1,
       .count = count,
       .divisor = 1});
}

void reduce_partials(const Reduction& how, std::span<const void* const> sources,
                     void* output, std::size_t count) {
  check(how, sources.size());
  void* const outputs[] = {output};
  partials_of(how).finished[static_cast<std::size_t>(how.op)](
      {.sources = sources.data(),
       .source_count = sources.size(),
       .outputs = outputs,
       .output_count = 1,
       .count = count,
       .divisor = how.divisor});
}

}  // namespace sheaf::comm
