// Compares the reduction loops with memcpy, in the cache (64 KiB per buffer)
// and in memory (64 MiB). GB/s counts every byte that the program reads or
// writes once: sources + outputs, and 2 per byte of memcpy.

#include "sheaf/comm/kernels/reduce_kernels.hpp"

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/kernels/reduce_loops_table.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kSmall = std::size_t{64} << 10;
constexpr std::size_t kLarge = std::size_t{64} << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// Memory like the arena's: whole huge pages, already mapped.
Memory make_buffer(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  Memory memory(std::aligned_alloc(kHugePage, whole));
  madvise(memory.get(), whole, MADV_HUGEPAGE);
  std::memset(memory.get(), 0, whole);
  return memory;
}

struct Case {
  DType dtype;
  std::size_t sources;
  std::size_t outputs;
  bool in_place;
  std::size_t bytes;
  int divisor = 1;
  const ReduceTable* table = nullptr;  // null: reduce()
};

std::string name_of(const Case& it) {
  return std::string(it.table ? it.table->name : "reduce") + "/" +
         std::string(sheaf::name_of(it.dtype)) + "/" +
         (it.divisor == 1 ? "sum" : "avg" + std::to_string(it.divisor)) + "/" +
         std::to_string(it.sources) + "to" + std::to_string(it.outputs) +
         (it.in_place ? "_in_place/" : "/") + std::to_string(it.bytes >> 10) +
         "KiB";
}

void set_rate(benchmark::State& state, std::size_t bytes_per_iteration) {
  state.counters["GB"] =
      benchmark::Counter(static_cast<double>(bytes_per_iteration) / 1e9,
                         benchmark::Counter::kIsIterationInvariantRate);
}

void run_reduce(benchmark::State& state, const Case& it) {
  std::vector<Memory> buffers;
  std::vector<const void*> sources;
  std::vector<void*> outputs;
  for (std::size_t k = 0; k < it.sources; ++k)
    sources.push_back(buffers.emplace_back(make_buffer(it.bytes)).get());
  for (std::size_t k = 0; k < it.outputs; ++k)
    outputs.push_back(it.in_place
                          ? buffers[k].get()
                          : buffers.emplace_back(make_buffer(it.bytes)).get());
  const std::size_t count = it.bytes / size_of(it.dtype);
  const Reduction how{it.dtype, ReduceOp::kSum, it.divisor};
  const ReduceArgs args{sources.data(), sources.size(), outputs.data(),
                        outputs.size(), count,          it.divisor};
  for (auto _ : state) {
    if (it.table)
      it.table->functions[static_cast<std::size_t>(it.dtype)][0](args);
    else
      reduce(how, sources, outputs, count);
    benchmark::ClobberMemory();
  }
  set_rate(state, (it.sources + it.outputs) * it.bytes);
}

void run_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Memory from = make_buffer(bytes), to = make_buffer(bytes);
  for (auto _ : state) {
    std::memcpy(to.get(), from.get(), bytes);
    benchmark::ClobberMemory();
  }
  set_rate(state, 2 * bytes);
}
BENCHMARK(run_memcpy)->Name("memcpy")->Arg(kSmall)->Arg(kLarge)->UseRealTime();

void add_case(const Case& it) {
  benchmark::RegisterBenchmark(
      name_of(it).c_str(),
      [it](benchmark::State& state) { run_reduce(state, it); })
      ->UseRealTime();
}

void add_cases() {
  for (std::size_t bytes : {kSmall, kLarge})
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (std::size_t sources : {2, 4}) {
        add_case({dtype, sources, sources, true, bytes});
        add_case({dtype, sources, 1, true, bytes});
        add_case({dtype, sources, 1, false, bytes});
        add_case({dtype, sources, sources, true, bytes, /*divisor=*/2});
        for (const ReduceTable* table : supported_tables())
          add_case({dtype, sources, sources, true, bytes, 1, table});
      }
  // Without streaming stores, for comparison with reduce().
  add_case({DType::kF32, 2, 1, false, kLarge, 1, supported_tables().back()});
}

}  // namespace
}  // namespace sheaf::comm

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  sheaf::comm::add_cases();
  benchmark::RunSpecifiedBenchmarks();
}
