#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel {
namespace {

// Prefixes of environment variables that the libraries read. Numbers of threads
// that result from other variables are queried instead.
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

// The model of the first processor; all processors of a host are assumed to be
// equal.
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

// OpenBLAS rewrites its config into one buffer at each call. It is queried
// once, so that no thread reads it while another writes.
const std::string& blas_config() {
  static const std::string text = ask<const char*>("openblas_get_config", "");
  return text;
}

// With OpenMP, the BLAS uses libtorch's number of threads, and the number that
// OpenBLAS reports changes with each thread's first call.
int blas_threads() {
  using Function = int (*)();
  static const auto function = [] {
    const bool has_own = blas_config().find("USE_OPENMP") == std::string::npos;
    return reinterpret_cast<Function>(
        has_own ? ::dlsym(RTLD_DEFAULT, "openblas_get_num_threads") : nullptr);
  }();
  return function ? function() : 0;
}

// The part that does not change. libtorch's config includes the instruction
// set.
const std::string& fixed_text() {
  static const std::string text =
      concat("BLAS ", ask<const char*>("openblas_get_corename", ""), " ",
             blas_config(), "; processor", processor(), "; libtorch ",
             TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, "; settings",
             settings(), "; ", at::show_config());
  return text;
}

// Cached, because the query is slow.
std::string device_name(int device) {
  static std::mutex mutex;
  static std::map<int, std::string> names;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = names.try_emplace(device);
  if (is_new) found->second = cast_kernels::device_name(device);
  return found->second;
}

// The precision of products on a GPU. libtorch throws if it was set through
// more than one interface.
std::string precision() {
  try {
    return concat(
        static_cast<int>(at::globalContext().float32MatmulPrecision()));
  } catch (const c10::Error&) {
    return "set by several functions";
  }
}

std::uint64_t hash_of(const std::string& text,
                      std::uint64_t sum = 0xcbf29ce484222325u) {
  for (const char c : text)
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

// The part that may change between two passes.
std::string changing_text(int device) {
  std::string text = concat(at::get_num_threads(), " threads; ", blas_threads(),
                            " of the BLAS; ");
  if (device >= 0) text += concat(device_name(device), " ", precision(), "; ");
  return text;
}

}  // namespace

std::string describe_products(int device) {
  return changing_text(device) + fixed_text();
}

std::int64_t product_identity(int device) {
  static const std::uint64_t fixed = hash_of(fixed_text());
  return static_cast<std::int64_t>(hash_of(changing_text(device), fixed));
}

}  // namespace sheaf::parallel
