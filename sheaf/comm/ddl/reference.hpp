#pragma once
// A reduction once more, in higher precision, and whether a result agrees.
// docs/ddl.md derives the bound.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

// What is compared, and how strictly: floating-point results may differ from
// the true sum of n ranks' x by `check` * n * eps * sum |x|. Integers and bool
// must be exact. 1 holds for every right sum, whatever its order.
struct CheckRule {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;  // kSum or kAvg
  double check = 1;
};

// UsageError unless the operation can be checked and `check` is positive.
void validate(const CheckRule& rule);

enum class Fault : std::uint8_t {
  kNone,
  kError,     // too far from the reference, or not the same integer
  kNan,       // NaN although no input was
  kLostNan,   // an input was NaN, the result is not
  kInfinity,  // infinite although the true result is not, or the other way
};
std::string_view name_of(Fault fault) noexcept;

// One element. Plain, since ranks tell each other.
struct Finding {
  std::uint64_t element = 0;
  Fault fault = Fault::kNone;
  double result = 0;
  double reference = 0;
  double error = 0;
  double bound = 0;

  // How far beyond what is allowed: above 1 is wrong.
  double badness() const noexcept;
};

struct Verdict {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;
  std::uint64_t nan_inputs = 0;  // elements with a NaN among their inputs
  std::uint64_t first_nan_input = 0;
  Finding worst;  // also when nothing is wrong

  bool is_good() const noexcept { return wrong == 0; }
};

// Looks at one element: inputs[r] is the buffer of rank r.
Finding examine(const CheckRule& rule, std::span<const void* const> inputs,
                const void* output, std::size_t index);

// Looks at `count` elements. `first` is added to the elements' numbers.
Verdict verify(const CheckRule& rule, std::span<const void* const> inputs,
               const void* output, std::size_t count, std::uint64_t first = 0);

// Both together.
Verdict merge(const Verdict& a, const Verdict& b);

// An element as a number; 64-bit integers are rounded.
double value_at(DType dtype, const void* data, std::size_t index);

// "3.5 instead of 3 (error 0.5, allowed 1.2e-06)"
std::string describe(const Finding& finding);

}  // namespace sheaf::comm
