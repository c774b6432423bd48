// Stub for a libtorch built without Kineto.
#include "sheaf/base/error.hpp"
#include "sheaf/tensor/record/kineto.hpp"

namespace sheaf::tensor {

const char* why_no_kineto() {
  return "this libtorch was built without Kineto, which records GPU kernels";
}

KinetoRecorder::KinetoRecorder() {
  SHEAF_CHECK(false, why_no_kineto(),
              "; build Sheaf with a libtorch that has Kineto, or record with "
              "device=cpu");
}
KinetoRecorder::~KinetoRecorder() = default;
void KinetoRecorder::start() {}
void KinetoRecorder::stop(const std::filesystem::path&) {}

}  // namespace sheaf::tensor
