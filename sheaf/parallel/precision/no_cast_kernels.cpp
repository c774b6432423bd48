// Replacement for builds without CUDA or without its compiler.
#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::cast_kernels {
namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "Sheaf was built without its CUDA kernels; layers in int8 need a build "
      "with nvcc and a libtorch with CUDA");
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
void quantize(const Quantize&, Stream) { refuse(); }
void im2col(const Im2col&, Stream) { refuse(); }
void dequantize(const Dequantize&, Stream) { refuse(); }

}  // namespace sheaf::parallel::cast_kernels
