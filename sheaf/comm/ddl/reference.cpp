// The reference sum of floating-point numbers is kept as an unevaluated pair of
// doubles: the sum so far and the rounding error (Knuth's two-sum, "The Art of
// Computer Programming" 4.2.2). It is exact to about 106 bits, which is enough
// for f64 and the shorter types on every platform.

#include "sheaf/comm/ddl/reference.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

template <class T>
T load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof value,
              sizeof value);
  return value;
}

struct Precision {
  double epsilon;
  double largest;
  double smallest;  // above zero
};

Precision precision_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {0x1p-52, std::numeric_limits<double>::max(), 0x1p-1074};
    case DType::kF32:
      return {0x1p-23, std::numeric_limits<float>::max(), 0x1p-149};
    case DType::kF16:
      return {0x1p-10, 65504.0, 0x1p-24};
    default:
      return {0x1p-7, 0x1.fep127, 0x1p-133};
  }
}

class TrueSum {
 public:
  void add(double x) {
    const double sum = sum_ + x;
    const double part = sum - sum_;
    lost_ += (sum_ - (sum - part)) + (x - part);
    sum_ = sum;
    magnitude_ += std::abs(x);
    has_nan_ |= std::isnan(x);
  }
  void divide(int divisor) {
    const double quotient = sum_ / divisor;
    lost_ = (std::fma(-quotient, divisor, sum_) + lost_) / divisor;
    sum_ = quotient;
    magnitude_ /= divisor;
  }

  bool has_nan() const { return has_nan_; }
  double magnitude() const { return magnitude_; }  // sum of absolute values
  // The rounding error is NaN if the sum is infinite.
  double value() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }
  double distance(double x) const { return std::abs((x - sum_) - lost_); }

 private:
  double sum_ = 0;
  double lost_ = 0;
  double magnitude_ = 0;
  bool has_nan_ = false;
};

Fault fault_of(const Finding& found, const TrueSum& sum, double largest) {
  if (sum.has_nan())
    return std::isnan(found.result) ? Fault::kNone : Fault::kLostNan;
  if (std::isnan(found.result)) return Fault::kNan;
  if (std::isinf(found.reference))
    return found.result == found.reference ? Fault::kNone : Fault::kInfinity;
  if (std::isinf(found.result)) {
    // Infinity is correct if the true result is close to overflow.
    const bool may_overflow =
        std::abs(found.reference) + found.bound >= largest &&
        std::signbit(found.reference) == std::signbit(found.result);
    return may_overflow ? Fault::kNone : Fault::kInfinity;
  }
  return found.error <= found.bound ? Fault::kNone : Fault::kError;
}

Finding examine_float(const CheckRule& rule,
                      std::span<const void* const> inputs, const void* output,
                      std::size_t index) {
  const int ranks = static_cast<int>(inputs.size());
  const Precision precision = precision_of(rule.dtype);
  TrueSum sum;
  for (const void* input : inputs) sum.add(value_at(rule.dtype, input, index));
  if (rule.op == ReduceOp::kAvg) sum.divide(ranks);
  Finding found{.element = index};
  found.result = value_at(rule.dtype, output, index);
  found.reference = sum.value();
  found.error = sum.distance(found.result);
  found.bound = rule.check * ranks * precision.epsilon * sum.magnitude();
  // Sums of subnormal numbers are exact, quotients are not.
  if (rule.op == ReduceOp::kAvg) found.bound += precision.smallest;
  found.fault = fault_of(found, sum, precision.largest);
  return found;
}

// Sums wrap around in the type; averages divide the sum and round toward zero.
template <class Int>
Finding examine_integer(const CheckRule& rule,
                        std::span<const void* const> inputs, const void* output,
                        std::size_t index) {
  std::uint64_t sum = 0;
  for (const void* input : inputs)
    sum += static_cast<std::uint64_t>(load<Int>(input, index));
  auto expected = static_cast<Int>(sum);
  if (rule.op == ReduceOp::kAvg)
    expected = static_cast<Int>(static_cast<std::int64_t>(expected) /
                                static_cast<std::int64_t>(inputs.size()));
  const Int result = load<Int>(output, index);
  const auto difference =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(result) -
                                static_cast<std::uint64_t>(expected));
  return {.element = index,
          .fault = result == expected ? Fault::kNone : Fault::kError,
          .result = static_cast<double>(result),
          .reference = static_cast<double>(expected),
          .error = std::abs(static_cast<double>(difference)),
          .bound = 0};
}

Finding examine_bool(std::span<const void* const> inputs, const void* output,
                     std::size_t index) {
  bool expected = false;
  for (const void* input : inputs)
    expected |= load<std::uint8_t>(input, index) != 0;
  const bool result = load<std::uint8_t>(output, index) != 0;
  return {.element = index,
          .fault = result == expected ? Fault::kNone : Fault::kError,
          .result = static_cast<double>(result),
          .reference = static_cast<double>(expected),
          .error = result == expected ? 0.0 : 1.0,
          .bound = 0};
}

bool has_nan(DType dtype, std::span<const void* const> inputs,
             std::size_t index) {
  if (!is_float(dtype)) return false;
  for (const void* input : inputs)
    if (std::isnan(value_at(dtype, input, index))) return true;
  return false;
}

}  // namespace

void validate(const CheckRule& rule) {
  SHEAF_CHECK(rule.op == ReduceOp::kSum || rule.op == ReduceOp::kAvg,
              "check supports sum and avg, not ", name_of(rule.op),
              "; omit check");
  SHEAF_CHECK(std::isfinite(rule.check) && rule.check > 0, "check is ",
              rule.check,
              "; it must be a number above 0 (1 accepts every "
              "correct sum), or 0 to disable the check");
}

std::string_view name_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::kError:
      return "error";
    case Fault::kNan:
      return "new NaN";
    case Fault::kLostNan:
      return "lost NaN";
    case Fault::kInfinity:
      return "infinity";
    default:
      return "none";
  }
}

double Finding::badness() const noexcept {
  if (fault != Fault::kNone && fault != Fault::kError)
    return std::numeric_limits<double>::infinity();
  if (fault == Fault::kNone && !(error > 0)) return 0;  // also if error is NaN
  return bound > 0 ? error / bound : std::numeric_limits<double>::max();
}

double value_at(DType dtype, const void* data, std::size_t index) {
  switch (dtype) {
    case DType::kF64:
      return load<double>(data, index);
    case DType::kF32:
      return load<float>(data, index);
    case DType::kF16:
      return to_float(load<Half>(data, index));
    case DType::kBF16:
      return to_float(load<BFloat16>(data, index));
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(data, index));
    case DType::kI32:
      return load<std::int32_t>(data, index);
    case DType::kI16:
      return load<std::int16_t>(data, index);
    case DType::kI8:
      return load<std::int8_t>(data, index);
    default:
      return load<std::uint8_t>(data, index);
  }
}

Finding examine(const CheckRule& rule, std::span<const void* const> inputs,
                const void* output, std::size_t index) {
  switch (rule.dtype) {
    case DType::kI64:
      return examine_integer<std::int64_t>(rule, inputs, output, index);
    case DType::kI32:
      return examine_integer<std::int32_t>(rule, inputs, output, index);
    case DType::kI16:
      return examine_integer<std::int16_t>(rule, inputs, output, index);
    case DType::kI8:
      return examine_integer<std::int8_t>(rule, inputs, output, index);
    case DType::kU8:
      return examine_integer<std::uint8_t>(rule, inputs, output, index);
    case DType::kBool:
      return examine_bool(inputs, output, index);
    default:
      return examine_float(rule, inputs, output, index);
  }
}

Verdict verify(const CheckRule& rule, std::span<const void* const> inputs,
               const void* output, std::size_t count, std::uint64_t first) {
  Verdict verdict;
  verdict.checked = count;
  for (std::size_t i = 0; i < count; ++i) {
    Finding found = examine(rule, inputs, output, i);
    found.element += first;
    if (found.fault != Fault::kNone) ++verdict.wrong;
    if (i == 0 || found.badness() > verdict.worst.badness())
      verdict.worst = found;
    if (has_nan(rule.dtype, inputs, i) && verdict.nan_inputs++ == 0)
      verdict.first_nan_input = found.element;
  }
  return verdict;
}

Verdict merge(const Verdict& a, const Verdict& b) {
  if (a.checked == 0) return b;
  Verdict both = a;
  both.checked += b.checked;
  both.wrong += b.wrong;
  if (a.nan_inputs == 0) both.first_nan_input = b.first_nan_input;
  both.nan_inputs += b.nan_inputs;
  if (b.worst.badness() > a.worst.badness()) both.worst = b.worst;
  return both;
}

std::string describe(const Finding& finding) {
  std::string text = fmt::format("{:.17g} instead of {:.17g}", finding.result,
                                 finding.reference);
  if (finding.fault == Fault::kNone || finding.fault == Fault::kError)
    return text + fmt::format(" (error {:.3g}, allowed {:.3g})", finding.error,
                              finding.bound);
  return text + fmt::format(" ({})", name_of(finding.fault));
}

}  // namespace sheaf::comm
