// Without CUDA, or without its compiler, there are no kernels.
#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::cast_kernels {
namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "sheaf was built without its CUDA kernels; build it with a libtorch that "
      "has CUDA, and with nvcc, for layers in int8");
}

}  // namespace

bool are_built() { return false; }
int capability(int) { return 0; }
std::string device_name(int) { return ""; }
Stream current_stream(int) { refuse(); }
void amax(const void*, Type, std::size_t, float*, Stream) { refuse(); }
void amax_rows(const void*, Type, std::int64_t, std::int64_t, float*, Stream) {
  refuse();
}
void quantise(const Quantise&, Stream) { refuse(); }
void im2col(const Im2col&, Stream) { refuse(); }
void dequantise(const Dequantise&, Stream) { refuse(); }

}  // namespace sheaf::parallel::cast_kernels
