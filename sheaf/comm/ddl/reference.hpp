#pragma once
// Repeats a reduction in higher precision and compares a result with it. See
// docs/explanation/checked_reductions.md for the derivation of the bound.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

// The rule of the comparison. Floating-point results may differ from the true
// sum over n ranks by `check` * n * eps * sum |x|; integers and booleans must
// be exact. With check = 1 every correct sum passes, whatever its order.
struct CheckRule {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;  // kSum or kAvg
  double check = 1;
};

// Throws UsageError unless the operation can be checked and `check` is
// positive.
void validate(const CheckRule& rule);

enum class Fault : std::uint8_t {
  kNone,
  kError,     // too far from the reference, or not the same integer
  kNan,       // NaN although no input is
  kLostNan,   // an input is NaN, the result is not
  kInfinity,  // infinite although the true result is not, or vice versa
};
std::string_view name_of(Fault fault) noexcept;

// The result for one element. Trivially copyable, since ranks exchange it as
// bytes.
struct Finding {
  std::uint64_t element = 0;
  Fault fault = Fault::kNone;
  double result = 0;
  double reference = 0;
  double error = 0;
  double bound = 0;

  // Error relative to the bound; above 1 is wrong.
  double badness() const noexcept;
};

struct Verdict {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;
  std::uint64_t nan_inputs = 0;  // elements with a NaN among their inputs
  std::uint64_t first_nan_input = 0;
  Finding worst;  // set even if no element is wrong

  bool is_good() const noexcept { return wrong == 0; }
};

// Examines one element; inputs[r] is the buffer of rank r.
Finding examine(const CheckRule& rule, std::span<const void* const> inputs,
                const void* output, std::size_t index);

// Examines `count` elements. `first` is added to the element numbers.
Verdict verify(const CheckRule& rule, std::span<const void* const> inputs,
               const void* output, std::size_t count, std::uint64_t first = 0);

// Combines the verdicts of two ranges of elements.
Verdict merge(const Verdict& a, const Verdict& b);

// An element as a double; 64-bit integers are rounded.
double value_at(DType dtype, const void* data, std::size_t index);

// "3.5 instead of 3 (error 0.5, allowed 1.2e-06)"
std::string describe(const Finding& finding);

}  // namespace sheaf::comm
