#include "sheaf/parallel/matrix/small_matrix.hpp"

#include <array>

namespace sheaf::parallel {
namespace {

#if defined(__x86_64__) || defined(__i386__)
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f");
}
#else
bool has_avx2() noexcept { return false; }
bool has_avx512() noexcept { return false; }
#endif

struct Tables {
  std::array<const MatrixLoops*, 3> list{baseline_loops()};
  std::size_t count = 1;

  Tables() noexcept {
    if (has_avx2()) add(avx2_loops());
    if (has_avx512()) add(avx512_loops());
  }
  void add(const MatrixLoops* loops) noexcept {
    if (loops) list[count++] = loops;
  }
};

}  // namespace

std::span<const MatrixLoops* const> supported_loops() noexcept {
  static const Tables tables;
  return {tables.list.data(), tables.count};
}

}  // namespace sheaf::parallel
