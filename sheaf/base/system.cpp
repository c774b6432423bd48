#include "sheaf/base/system.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "sheaf/base/error.hpp"

namespace sheaf {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string process_namespace() {
  char text[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", text, sizeof text - 1);
  return length > 0 ? std::string(text) : "";
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

void keep_freed_memory() {
  for (const char* name :
       {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"})
    if (std::getenv(name)) return;
  constexpr int kNever = std::numeric_limits<int>::max();
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
}

#if defined(__x86_64__)

namespace {

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxTile = 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmxTile);
}

}  // namespace

std::string openblas_core() {
  if (!__builtin_cpu_is("intel")) return "";
  if (__builtin_cpu_supports("avx512bf16"))
    return has_tiles() ? "SapphireRapids" : "Cooperlake";
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
  return "";
}

#else

std::string openblas_core() { return ""; }

#endif

void choose_openblas_kernels() {
  if (const std::string core = openblas_core(); !core.empty())
    ::setenv("OPENBLAS_CORETYPE", core.c_str(), /*replace=*/0);
}

std::string slow_openblas() {
  using Name = char*();
  auto* const name =
      reinterpret_cast<Name*>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const std::string better = openblas_core();
  if (!name || better.empty()) return "";
  const std::string core = name();
  for (const char* old : {"Prescott", "Core2", "Penryn", "Nehalem", "Generic"})
    if (core == old)
      return concat(
          "OpenBLAS does not recognize this processor and uses kernels "
          "for ",
          core,
          ", which are several times slower; set "
          "OPENBLAS_CORETYPE=",
          better, ", or start the program with sheaf run, which sets it");
  return "";
}

}  // namespace sheaf
