#include "sheaf/plan/predict/device_profile.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/graph/type_flow.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

void scale_ns(std::int64_t& ns, double factor) {
  ns =
      static_cast<std::int64_t>(std::llround(static_cast<double>(ns) * factor));
}

// Operations of a product of two activations: [.., M, K] x [.., K, N] with
// result [.., M, N]. The order of the inputs is unknown, so K is derived from
// both.
double product_flops(const Slot& slot) {
  const Shape& out = slot.out_shape;
  if (slot.inputs.size() < 2 || out.size() < 2) return 0;
  std::vector<double> sizes;
  for (const SlotInput& one : slot.inputs) sizes.push_back(one.elements);
  const double results = elements_of(out);
  if (slot.op.find("attention") != std::string::npos)  // queries and values
    return 4 * results * static_cast<double>(out[out.size() - 2]);
  const double each = static_cast<double>(out[out.size() - 1]) *
                      static_cast<double>(out[out.size() - 2]);
  const double batch = results / std::max(1.0, each);
  const double inner = std::sqrt(sizes[0] * sizes[1] / std::max(1.0, results) /
                                 std::max(1.0, batch));
  return 2 * results * inner;
}

double bytes_moved_by(const Slot& slot, Precision type) {
  double elements = elements_of(slot.out_shape) + slot.weight_elements;
  for (const SlotInput& one : slot.inputs) elements += one.elements;
  return elements * bytes_of(type);
}

// The backward pass of an int8 layer is in f16.
Precision computes_in(Precision precision, bool is_backward) {
  return is_backward && precision == Precision::kInt8 ? Precision::kF16
                                                      : precision;
}

double rate_of(const DeviceProfile& device, Precision precision) {
  const auto found = device.tflops.find(precision);
  if (found != device.tflops.end()) return found->second;
  // Without a rate for 16-bit types, use that of f32.
  const auto high = device.tflops.find(Precision::kF32);
  SHEAF_CHECK(high != device.tflops.end(), device.name, " has no tflops for ",
              to_string(precision), ", or for f32; add them to its file");
  return high->second;
}

class Scaler {
 public:
  Scaler(const StepProfile& profile, const DeviceProfile& from,
         const DeviceProfile& to)
      : profile_(profile), from_(from), to_(to) {
    by_memory_ = from.memory_gbs / to.memory_gbs;
    for (const bool is_backward : {false, true})
      for (const Slot& slot : profile.graph.slots)
        by_product_[is_backward].push_back(product_factor(slot, is_backward));
    find_products();
  }

  StepGraph scale(StepGraph step) const {
    for (auto& thread : step.threads)
      for (ThreadMark& mark : thread) scale(mark, step);
    return step;
  }

 private:
  // If no kernel of a part has the name of a product, all its kernels count as
  // products.
  void find_products() {
    has_product_.assign(profile_.parts.size(), false);
    for (const auto& thread : profile_.step.threads)
      for (const ThreadMark& mark : thread)
        if (mark.part != kNone && mark.kernel != kNone &&
            profile_.step.kernels[static_cast<At>(mark.kernel)].is_product)
          has_product_[static_cast<At>(mark.part)] = true;
  }
  double product_factor(const Slot& slot, bool is_backward) const {
    if (slot.layer.empty()) return by_memory_;
    const Precision type = computes_in(profile_.model.precision, is_backward);
    const double flops = flops_of(slot);
    const double slower = rate_of(from_, type) / rate_of(to_, type);
    if (flops == 0) return slower;
    const double bytes = bytes_moved_by(slot, type);
    const auto roof_ns = [&](const DeviceProfile& device) {
      return std::max(flops / rate_of(device, type) * 1e-3,
                      bytes / device.memory_gbs);
    };
    return roof_ns(to_) / roof_ns(from_);
  }

  double factor_of(const ThreadMark& mark, bool is_product) const {
    if (mark.part == kNone) return by_memory_;
    const auto number = static_cast<At>(mark.part);
    const Part& part = profile_.parts[number];
    if (part.cast != kNone || (!is_product && has_product_[number]))
      return by_memory_;
    return by_product_[part.is_backward][static_cast<At>(part.slot)];
  }
  void scale(ThreadMark& mark, StepGraph& step) const {
    if (!step.has_device)
      return scale_ns(mark.cpu_ns, factor_of(mark, /*is_product=*/true));
    scale_ns(mark.cpu_ns, to_.host_time / from_.host_time);
    if (mark.kernel == kNone) return;
    KernelTask& task = step.kernels[static_cast<At>(mark.kernel)];
    if (task.collective == kNone)
      scale_ns(task.ns, factor_of(mark, task.is_product));
    if (from_.launch_us <= 0 || to_.launch_us <= 0) return;
    scale_ns(mark.call_ns, to_.launch_us / from_.launch_us);
    scale_ns(task.latency_ns, to_.launch_us / from_.launch_us);
  }

  const StepProfile& profile_;
  const DeviceProfile& from_;
  const DeviceProfile& to_;
  double by_memory_ = 1;
  std::vector<double> by_product_[2];  // by slot, forward and backward
  std::vector<bool> has_product_;      // by part
};

// Treats a bf16 trace as f16; both take the same time.
StepProfile as_f16(StepProfile profile) {
  const auto turn = [](std::optional<Precision>& type) {
    if (type == Precision::kBf16) type = Precision::kF16;
  };
  profile.is_stand_in = true;
  profile.model.precision = Precision::kF16;
  for (ModelNode& node : profile.model.nodes) turn(node.type);
  for (Slot& slot : profile.graph.slots) turn(slot.type);
  return profile;
}

}  // namespace

double flops_of(const Slot& slot) {
  if (slot.layer.empty() || slot.out_shape.size() < 2) return 0;
  if (slot.weight_elements <= 0) return product_flops(slot);
  const double results = elements_of(slot.out_shape);
  const bool is_convolution = slot.op.find("conv") != std::string::npos;
  const auto outputs = static_cast<double>(
      is_convolution ? slot.out_shape[1] : slot.out_shape.back());
  return 2 * results * slot.weight_elements / std::max(1.0, outputs);
}

StepProfile scale_profile(StepProfile profile, const DeviceProfile& from,
                          const DeviceProfile& to) {
  for (const DeviceProfile* device : {&from, &to})
    SHEAF_CHECK(device->can(profile.model.precision), profile.file, " is in ",
                to_string(profile.model.precision), ", in which ", device->name,
                " cannot compute: its file has no tflops for it");
  profile.step = Scaler(profile, from, to).scale(profile.step);
  profile.scaled_from = from.name;
  profile.device_name = to.name;
  return profile;
}

std::vector<StepProfile> traces_on(const std::vector<StepProfile>& traces,
                                   const DeviceProfile& from,
                                   const DeviceProfile& to) {
  const auto has = [&](Precision precision) {
    return std::any_of(traces.begin(), traces.end(), [&](const auto& one) {
      return one.model.precision == precision;
    });
  };
  std::vector<StepProfile> list;
  for (const StepProfile& one : traces) {
    const bool stands_for_f16 = one.model.precision == Precision::kBf16 &&
                                !to.can(Precision::kBf16) &&
                                !has(Precision::kF16);
    if (stands_for_f16 && to.can(Precision::kF16))
      list.push_back(scale_profile(as_f16(one), from, to));
    else if (to.can(one.model.precision))
      list.push_back(scale_profile(one, from, to));
  }
  SHEAF_CHECK(!list.empty(), to.name, " can compute in none of the precisions ",
              "of the traces; record one in f32");
  return list;
}

CastCosts scale_casts(CastCosts costs, const DeviceProfile& from,
                      const DeviceProfile& to) {
  for (auto& [pair, cost] : costs.pairs)
    cost.ns_per_element *= from.memory_gbs / to.memory_gbs;
  return costs;
}

}  // namespace sheaf::plan
