#pragma once
// The reduction loops as tables of functions, one table per instruction set.
// reduce_kernels.cpp picks the widest; the tests compare them all.

#include <array>
#include <cstddef>
#include <span>

#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

struct ReduceArgs {
  const void* const* sources;
  std::size_t source_count;  // at least 1
  void* const* outputs;
  std::size_t output_count;  // at least 1
  std::size_t count;
  int divisor;
  bool stream = false;  // write past the caches; no output is a source
};
using ReduceFunction = void (*)(const ReduceArgs& args);

struct ReduceTable {
  const char* name;  // of the instruction set
  // Null where is_defined() is false.
  using Row = std::array<ReduceFunction, kReduceOpCount>;
  std::array<Row, kDTypeCount> functions;
  // Of f16 and bf16, where has_wide_partials(): from sources of the type to
  // f32, and from sources of f32 to the type.
  struct Partials {
    Row made;
    Row finished;
  };
  std::array<Partials, 2> partials;
};

// Null where this build holds no code for that instruction set. Calling the
// functions of a table that the processor cannot run is an illegal instruction.
const ReduceTable* baseline_table() noexcept;
const ReduceTable* avx2_table() noexcept;
const ReduceTable* avx512_table() noexcept;

// The tables that this processor can run, the widest last; never empty.
std::span<const ReduceTable* const> supported_tables() noexcept;

}  // namespace sheaf::comm
