#pragma once
// Streaming stores, which bypass the caches. Compiled once per instruction set:
// the rule of reduce_loops_elements.hpp applies here, too.

#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sheaf::comm {
namespace {

#if defined(__SSE2__)

// An ordinary store first reads the cache line that it overwrites. Four
// consecutive streaming stores fill a line of 64 bytes, which is written
// without reading it.
inline void stream_line(unsigned char* to, const unsigned char* from) {
  for (std::size_t i = 0; i < 64; i += 16)
    _mm_stream_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
}

inline void stream_copy(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  std::size_t head = -reinterpret_cast<std::uintptr_t>(out) % 64;
  if (head > bytes) head = bytes;
  __builtin_memcpy(out, in, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) stream_line(out + at, in + at);
  __builtin_memcpy(out + at, in + at, bytes - at);
}

// Orders streaming stores before later stores, such as a flag that announces
// the data.
inline void end_streaming() { _mm_sfence(); }

#else

inline void stream_copy(void* to, const void* from, std::size_t bytes) {
  __builtin_memcpy(to, from, bytes);
}
inline void end_streaming() {}

#endif

}  // namespace
}  // namespace sheaf::comm
