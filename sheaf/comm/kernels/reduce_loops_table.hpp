#pragma once
// Tables of the reduction loops, one per instruction set. reduce_kernels.cpp
// selects the widest; the tests compare all of them.

#include <array>
#include <cstddef>
#include <span>

#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

struct ReduceArgs {
  const void* const* sources;
  std::size_t source_count;  // at least 1
  void* const* outputs;
  std::size_t output_count;  // at least 1
  std::size_t count;
  int divisor;
  bool stream = false;  // use streaming stores; no output may be a source
};
using ReduceFunction = void (*)(const ReduceArgs& args);

struct ReduceTable {
  const char* name;  // of the instruction set
  // Null if is_defined() is false.
  using Row = std::array<ReduceFunction, kReduceOpCount>;
  std::array<Row, kDTypeCount> functions;
  // For f16 and bf16, if has_wide_partials(). `made` reduces sources of the
  // element type to f32; `finished` reduces f32 sources to the element type.
  struct Partials {
    Row made;
    Row finished;
  };
  std::array<Partials, 2> partials;
};

// Null if this build contains no code for the instruction set. Do not call
// functions of a table that the processor does not support (SIGILL).
const ReduceTable* baseline_table() noexcept;
const ReduceTable* avx2_table() noexcept;
const ReduceTable* avx512_table() noexcept;

// The tables that this processor supports, the widest last; never empty.
std::span<const ReduceTable* const> supported_tables() noexcept;

}  // namespace sheaf::comm
