#include "sheaf/parallel/product_identity.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/cast_kernels.hpp"

namespace sheaf::parallel {
namespace {

// Settings that libraries read, by the beginning of their names. Numbers of
// threads that follow from others are asked for.
constexpr std::string_view kSettings[] = {
    "ATEN_CPU_CAPABILITY",  "BLIS_",       "CUBLAS_", "DNNL_",    "MKL_",
    "NVIDIA_TF32_OVERRIDE", "OMP_DYNAMIC", "ONEDNN_", "OPENBLAS_"};

std::string settings() {
  std::vector<std::string> list;
  for (char** one = environ; one && *one; ++one)
    for (const std::string_view name : kSettings)
      if (std::string_view(*one).starts_with(name)) list.emplace_back(*one);
  std::sort(list.begin(), list.end());
  std::string text;
  for (const std::string& one : list) text += " " + one;
  return text;
}

// The first processor's kind; the others of a host are alike.
std::string processor() {
  constexpr std::string_view kLines[] = {
      "vendor_id",       "cpu family", "model",      "model name",
      "CPU implementer", "CPU part",   "CPU variant"};
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name =
        line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (std::find(std::begin(kLines), std::end(kLines), name) !=
        std::end(kLines))
      text += line.substr(colon + 1);
  }
  return text;
}

template <class Result>
Result ask(const char* function, Result otherwise) {
  void* const found = ::dlsym(RTLD_DEFAULT, function);
  return found ? reinterpret_cast<Result (*)()>(found)() : otherwise;
}

// OpenBLAS writes its config anew into one buffer at each call: asked once, so
// that no thread reads what another is writing.
const std::string& blas_config() {
  static const std::string text = ask<const char*>("openblas_get_config", "");
  return text;
}

// With OpenMP a BLAS takes as many threads as libtorch, which is asked for
// that; what OpenBLAS itself says then changes with each thread's first call.
std::string blas() {
  const bool has_own_threads =
      blas_config().find("USE_OPENMP") == std::string::npos;
  return concat(ask<const char*>("openblas_get_corename", ""), " ",
                blas_config(), " threads ",
                has_own_threads ? ask<int>("openblas_get_num_threads", 0) : 0);
}

// What does not change. The instruction set is in libtorch's config.
const std::string& fixed_text() {
  static const std::string text =
      concat("processor", processor(), "; libtorch ", TORCH_VERSION_MAJOR, ".",
             TORCH_VERSION_MINOR, "; settings", settings());
  return text;
}
const std::string& config_text() {
  static const std::string text = at::show_config();
  return text;
}

// Of products on a GPU. libtorch refuses the question where it was set in more
// than one way.
std::string precision() {
  try {
    return concat(
        static_cast<int>(at::globalContext().float32MatmulPrecision()));
  } catch (const c10::Error&) {
    return "set in several ways";
  }
}

std::int64_t hash_of(const std::string& text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text)
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::int64_t>(sum);
}

}  // namespace

std::string describe_products(int device) {
  std::string text = concat(at::get_num_threads(), " threads; BLAS ", blas(),
                            "; ", fixed_text());
  if (device >= 0)
    text += concat("; ", cast_kernels::device_name(device), " ", precision());
  return text;
}

std::int64_t product_identity(int device) {
  return hash_of(describe_products(device) + config_text());
}

}  // namespace sheaf::parallel
