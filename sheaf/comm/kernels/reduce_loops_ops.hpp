#pragma once
// The operations on two values, and the division at the end. Compiled once per
// instruction set: the rule of reduce_loops_elements.hpp holds here too.
// A value is a number, or a vector of numbers as the compiler's extension.

#include <cstdint>

namespace sheaf::comm {
namespace {

// Integers come here unsigned, so that they wrap around instead of overflow.
struct Sum {
  static constexpr bool kOften = true;
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Product {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a * b);
  }
  // Two such factors would be promoted to int, which overflows.
  static std::uint16_t apply(std::uint16_t a, std::uint16_t b) {
    return static_cast<std::uint16_t>(std::uint32_t{a} * std::uint32_t{b});
  }
};
// b != b holds for a NaN only; a NaN in a fails both tests and so stays.
struct Min {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct Max {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
struct BitAnd {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct BitOr {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct BitXor {
  static constexpr bool kOften = false;
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

struct Keep {
  template <class V>
  V operator()(V value) const {
    return value;
  }
};
// Division by a power of two: the product is the same number, several times
// faster.
template <class F>
struct Scale {
  F factor;
  template <class V>
  V operator()(V value) const {
    return value * factor;
  }
};
template <class F>
struct Divide {
  F divisor;
  template <class V>
  V operator()(V value) const {
    return value / divisor;
  }
};
// Integers are divided as floating-point numbers F wide enough to hold them:
// processors have no vector division of integers. The quotient truncates
// rightly: x/d lies at least 1/d below the next integer, more than half an ulp
// of F as long as |x| is below half of F's largest exact integer.
template <class Int, class F>
struct Truncate {
  F divisor;
  template <class V>
  V operator()(V value) const {
    const F exact = static_cast<F>(static_cast<Int>(value));
    return static_cast<V>(static_cast<std::int32_t>(exact / divisor));
  }
};
struct TruncateWide {
  std::int64_t divisor;
  std::uint64_t operator()(std::uint64_t value) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value) /
                                      divisor);
  }
};

}  // namespace
}  // namespace sheaf::comm
