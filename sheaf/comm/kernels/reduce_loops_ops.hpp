#pragma once
// Binary operations, and the division at the end. Compiled once per instruction
// set: the rule of reduce_loops_elements.hpp applies here, too. A value is a
// number or a vector (a compiler extension).

#include <cstdint>

namespace sheaf::comm {
namespace {

// Integers are passed as unsigned, so that they wrap around instead of
// overflowing.
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
  // 16-bit factors would be promoted to int, which overflows.
  static std::uint16_t apply(std::uint16_t a, std::uint16_t b) {
    return static_cast<std::uint16_t>(std::uint32_t{a} * std::uint32_t{b});
  }
};
// b != b is true only if b is NaN. If a is NaN, both tests are false and a is
// kept.
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
// Division by a power of two: multiplying by the reciprocal gives the same
// result and is several times faster.
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
// Integers are divided as floating-point numbers of a type F that can represent
// them, because processors have no vector division of integers. The quotient is
// truncated correctly: x/d is at least 1/d below the next integer, which is
// more than half an ulp of F if |x| is below half of the largest exact integer
// of F.
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
