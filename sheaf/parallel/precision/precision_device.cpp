#include "sheaf/parallel/precision/precision_device.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/precision_int8.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sheaf::parallel {
namespace {

using plan::Precision;

bool has_tiles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTileBit = 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTileBit);
#else
  return false;
#endif
}

// The major version of a separate oneDNN library, or 0 if oneDNN is part of
// libtorch, as in newer versions. The struct follows oneDNN's header.
int onednn_version() {
  struct Version {
    int major;
  };
  const auto ask = reinterpret_cast<const Version* (*)()>(
      ::dlsym(RTLD_DEFAULT, "dnnl_version"));
  return ask ? ask()->major : 0;
}

std::string why_not_on_cpu(Precision precision) {
  if (precision == Precision::kF32 || precision == Precision::kBf16) return "";
  return "a CPU computes layers in f32 and bf16; tf32, f16 and int8 need a "
         "CUDA device";
}

// Runs before main(), for programs that compute before they use a plan.
const bool are_kernels_sound = (avoid_broken_kernels(), true);

}  // namespace

void avoid_broken_kernels() {
  const int version = onednn_version();
  if (version > 0 && version < 3 && has_tiles())
    ::setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", /*replace=*/0);
}

std::string why_not(Precision precision, const c10::Device& device) {
  if (device.is_cpu()) return why_not_on_cpu(precision);
  if (!device.is_cuda())
    return concat("layers on ", device.str(), " are not supported; use a CPU ",
                  "or a CUDA device");
  return precision == Precision::kInt8 ? why_no_int8(device) : "";
}

}  // namespace sheaf::parallel
