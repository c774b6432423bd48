#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/record/kineto.hpp"

namespace sheaf::tensor {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

ProfilerConfig kineto_config() {
  return ProfilerConfig(ProfilerState::KINETO, /*report_input_shapes=*/true,
                        /*profile_memory=*/true);
}

std::set<ActivityType> kineto_activities() {
  return {ActivityType::CPU, ActivityType::CUDA};
}

}  // namespace

const char* why_no_kineto() { return ""; }

KinetoRecorder::KinetoRecorder() {
  profiler::prepareProfiler(kineto_config(), kineto_activities());
}

KinetoRecorder::~KinetoRecorder() {
  if (is_on_) profiler::disableProfiler();
}

void KinetoRecorder::start() {
  torch::cuda::synchronize();
  profiler::enableProfiler(kineto_config(), kineto_activities());
  is_on_ = true;
}

void KinetoRecorder::stop(const std::filesystem::path& file) {
  torch::cuda::synchronize();
  is_on_ = false;
  const auto result = profiler::disableProfiler();
  result->save(file.string());
  if (!std::filesystem::exists(file))
    throw IoError(concat(file.string(),
                         ": libtorch's profiler did not write it; check that "
                         "the folder exists and the disk has free space"));
}

}  // namespace sheaf::tensor
