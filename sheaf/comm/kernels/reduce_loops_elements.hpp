#pragma once
// Loading, computing and storing of each element type.
//
// This file is compiled once per instruction set. Everything in it must have
// internal linkage, and must not call inline functions of other headers: the
// linker would keep one copy, possibly with instructions that the processor
// does not support. Hence the unnamed namespace and the built-ins.
//
// An element type E has:
//   Stored       type in the sources
//   Written      type in the outputs: the same, except for partial results
//   Accumulated  type of a partial result
//   Value        type of one loop iteration: kLanes values of Accumulated. With
//                kLanes = 1 the compiler vectorizes the loop
//   Tail         an element type with kLanes = 1 that gives the same bits
//   load, store

#include <cstddef>
#include <cstdint>
#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace sheaf::comm {
namespace {

// Buffers are bytes: they may have any alignment and hold any C++ type.
template <class T>
inline T load_bytes(const void* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store_bytes(void* to, T value) {
  __builtin_memcpy(to, &value, sizeof value);
}

template <class T>
struct Plain {
  using Stored = T;
  using Written = T;
  using Accumulated = T;
  using Value = T;
  using Tail = Plain;
  static constexpr std::size_t kLanes = 1;
  static Value load(const Stored* from) { return load_bytes<T>(from); }
  static void store(Written* to, Value value) { store_bytes(to, value); }
};

struct Truth : Plain<std::uint8_t> {
  using Tail = Truth;
  static Value load(const Stored* from) {
    return load_bytes<std::uint8_t>(from) != 0;
  }
};

struct Brain : Plain<float> {
  using Stored = std::uint16_t;
  using Written = Stored;
  using Tail = Brain;
  static Value load(const Stored* from) {
    const std::uint32_t bits = load_bytes<std::uint16_t>(from);
    return __builtin_bit_cast(float, bits << 16);
  }
  static void store(Stored* to, Value value) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const std::uint32_t quieted = bits | 0x400000u;
    const bool is_nan = value != value;
    store_bytes(to, static_cast<Stored>((is_nan ? quieted : rounded) >> 16));
  }
};

// See sheaf/base/dtype.cpp for the constants. Here all cases are computed and
// one is selected, since vector code cannot branch.
struct SoftHalf : Plain<float> {
  using Stored = std::uint16_t;
  using Written = Stored;
  using Tail = SoftHalf;
  static Value load(const Stored* from) {
    const std::uint32_t half = load_bytes<std::uint16_t>(from);
    const std::uint32_t magnitude = half & 0x7fffu;
    const std::uint32_t normal =
        (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);
    const float tiny =
        static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
    const std::uint32_t bits =
        magnitude < 0x400u ? __builtin_bit_cast(std::uint32_t, tiny) : normal;
    return __builtin_bit_cast(float, bits | (half & 0x8000u) << 16);
  }
  static void store(Stored* to, Value value) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const std::uint32_t normal =
        (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    const std::uint32_t tiny =
        __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u;
    std::uint32_t half = magnitude < 0x38800000u ? tiny : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? nan : half;
    store_bytes(to, static_cast<Stored>(half | ((bits >> 16) & 0x8000u)));
  }
};

#if defined(__AVX512F__)
struct HardHalf : SoftHalf {
  using Value = __m512;
  static constexpr std::size_t kLanes = 16;
  // The variants without a mask cause warnings in the headers of g++ 12.
  static constexpr __mmask16 kAll = 0xffff;
  static Value load(const Stored* from) {
    return _mm512_maskz_cvtph_ps(kAll, load_bytes<__m256i>(from));
  }
  static void store(Stored* to, Value value) {
    store_bytes(to,
                _mm512_maskz_cvtps_ph(kAll, value, _MM_FROUND_TO_NEAREST_INT));
  }
};
using Binary16 = HardHalf;
#elif defined(__F16C__)
struct HardHalf : SoftHalf {
  using Value = __m256;
  static constexpr std::size_t kLanes = 8;
  static Value load(const Stored* from) {
    return _mm256_cvtph_ps(load_bytes<__m128i>(from));
  }
  static void store(Stored* to, Value value) {
    store_bytes(to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
};
using Binary16 = HardHalf;
#else
using Binary16 = SoftHalf;
#endif

// A 16-bit type whose outputs are stored as accumulated, in f32.
template <class E>
struct ToPartial : E {
  using Written = float;
  using Tail = ToPartial<typename E::Tail>;
  static void store(Written* to, typename E::Value value) {
    store_bytes(to, value);
  }
};
// A 16-bit type whose sources are outputs of ToPartial.
template <class E>
struct FromPartial : E {
  using Stored = float;
  using Tail = FromPartial<typename E::Tail>;
  static typename E::Value load(const Stored* from) {
    return load_bytes<typename E::Value>(from);
  }
};

}  // namespace
}  // namespace sheaf::comm
