#include "sheaf/parallel/precision/precision_device.hpp"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"
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

namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;
using FlagsOfNode = std::shared_ptr<std::optional<Tf32Flags>>;

class SetFlags : public torch::autograd::FunctionPreHook {
 public:
  SetFlags(FlagsOfNode flags, bool is_on)
      : flags_(std::move(flags)), is_on_(is_on) {}
  variable_list operator()(const variable_list& gradients) override {
    flags_->emplace(is_on_);
    return gradients;
  }

 private:
  FlagsOfNode flags_;
  bool is_on_;
};

class ResetFlags : public torch::autograd::FunctionPostHook {
 public:
  explicit ResetFlags(FlagsOfNode flags) : flags_(std::move(flags)) {}
  variable_list operator()(const variable_list& outputs,
                           const variable_list& /*inputs*/) override {
    flags_->reset();
    return outputs;
  }

 private:
  FlagsOfNode flags_;
};

void add_hooks(Node& node, bool is_on) {
  const auto flags = std::make_shared<std::optional<Tf32Flags>>();
  node.add_pre_hook(std::make_unique<SetFlags>(flags, is_on));
  node.add_post_hook(std::make_unique<ResetFlags>(flags));
}

// Gradient accumulators have the maximum sequence number and are excluded.
bool is_newer(const Node& node, std::uint64_t first_node) {
  return node.sequence_nr() >= first_node &&
         node.sequence_nr() != std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Tf32Flags::Tf32Flags(bool is_on)
    : had_matrices_(at::globalContext().allowTF32CuBLAS()),
      had_convolutions_(at::globalContext().allowTF32CuDNN()) {
  at::globalContext().setAllowTF32CuBLAS(is_on);
  at::globalContext().setAllowTF32CuDNN(is_on);
}

Tf32Flags::~Tf32Flags() {
  at::globalContext().setAllowTF32CuBLAS(had_matrices_);
  at::globalContext().setAllowTF32CuDNN(had_convolutions_);
}

void use_tf32_in_backward(const at::Tensor& output, std::uint64_t first_node,
                          bool is_on) {
  std::set<Node*> seen;
  std::vector<Node*> left{output.grad_fn().get()};
  while (!left.empty()) {
    Node* node = left.back();
    left.pop_back();
    if (!node || !is_newer(*node, first_node) || !seen.insert(node).second)
      continue;
    add_hooks(*node, is_on);
    for (const auto& edge : node->next_edges())
      left.push_back(edge.function.get());
  }
}

}  // namespace sheaf::parallel
