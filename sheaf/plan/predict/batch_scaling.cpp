#include "sheaf/plan/predict/batch_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Granularity of allocators.
constexpr double kPieceBytes = 512;

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}
std::int64_t whole_pieces(double bytes) {
  return whole(std::ceil(bytes / kPieceBytes - 1e-6) * kPieceBytes);
}

double batch_of(const StepProfile& profile) {
  SHEAF_CHECK(profile.model.batch > 0, profile.file,
              " does not record its batch size; record it with sheaf trace");
  return static_cast<double>(profile.model.batch);
}

// Identifies a part in all traces of a model; work outside the model is
// identified by its thread.
using PartKey = std::tuple<std::int32_t, bool, std::int32_t>;
constexpr std::int32_t kOutside = -1;
PartKey key_of(const StepProfile& profile, std::int32_t part, At thread) {
  if (part < 0) return {kOutside, false, static_cast<std::int32_t>(thread)};
  const Part& one = profile.parts[static_cast<At>(part)];
  return {one.slot, one.is_backward, one.cast};
}

// Calls `visit(key, ns)` for all work: kernels, or threads if there is no
// device.
template <class Step, class Visit>
void visit_work(const StepProfile& profile, Step& step, Visit visit) {
  for (At t = 0; t < step.threads.size(); ++t)
    for (auto& mark : step.threads[t]) {
      const PartKey key = key_of(profile, mark.part, t);
      if (!step.has_device)
        visit(key, mark.cpu_ns);
      else if (mark.kernel != kNone)
        visit(key, step.kernels[static_cast<At>(mark.kernel)].ns);
    }
}

std::map<PartKey, double> sum_work(const StepProfile& profile) {
  std::map<PartKey, double> sums;
  visit_work(profile, profile.step, [&](const PartKey& key, std::int64_t ns) {
    sums[key] += static_cast<double>(ns);
  });
  return sums;
}

void scale_work(StepProfile& profile,
                const std::map<PartKey, double>& factors) {
  visit_work(profile, profile.step, [&](const PartKey& key, std::int64_t& ns) {
    if (const auto found = factors.find(key); found != factors.end())
      ns = whole(static_cast<double>(ns) * found->second);
  });
}

// Scales one trace: work with the batch in its shape, and everything computed
// from it.
class ByRule {
 public:
  ByRule(StepProfile profile, double factor)
      : profile_(std::move(profile)), factor_(factor) {}

  StepProfile change() {
    find_dependent();
    std::map<PartKey, double> factors;
    for (const Part& part : profile_.parts)
      if (depends_[static_cast<At>(part.slot)])
        factors[{part.slot, part.is_backward, part.cast}] = factor_;
    scale_work(profile_, factors);
    change_memory();
    change_shapes();
    profile_.step.loader_ns =
        whole(static_cast<double>(profile_.step.loader_ns) * factor_);
    return std::move(profile_);
  }

 private:
  void find_dependent() {
    for (const Slot& slot : profile_.graph.slots) {
      bool depends = !slot.out_shape.empty() &&
                     slot.out_shape[0] == profile_.model.batch &&
                     !is_parameter(elements_of(slot.out_shape));
      for (const SlotInput& input : slot.inputs)
        depends |= depends_[static_cast<At>(input.slot)];
      // Unknown shapes carry no information; most work depends on the batch.
      depends |= !slot.layer.empty() || slot.out_shape == Shape{0};
      depends_.push_back(depends);
    }
  }
  bool is_parameter(double elements) const {
    const auto& list = profile_.model.parameters;
    return std::any_of(list.begin(), list.end(), [&](const auto& one) {
      return static_cast<double>(one.elements) == elements;
    });
  }
  // Whether the allocation is a weight of the layer, a cast of it or its
  // gradient.
  bool is_of_weight(const Slot& slot, std::int64_t bytes) const {
    for (const double size : {1.0, 2.0, 4.0})
      if (bytes == whole_pieces(size * slot.weight_elements)) return true;
    return false;
  }
  void change_memory() {
    for (Allocation& one : profile_.memory) {
      if (one.born < 0) continue;
      const auto slot =
          static_cast<At>(profile_.parts[static_cast<At>(one.born)].slot);
      if (depends_[slot] &&
          !is_of_weight(profile_.graph.slots[slot], one.bytes))
        one.bytes = whole_pieces(static_cast<double>(one.bytes) * factor_);
    }
  }
  void change_shapes() {
    auto& slots = profile_.graph.slots;
    for (At i = 0; i < slots.size(); ++i) {
      for (SlotInput& input : slots[i].inputs)
        if (depends_[static_cast<At>(input.slot)]) input.elements *= factor_;
      if (depends_[i] && !slots[i].out_shape.empty())
        slots[i].out_shape[0] =
            whole(static_cast<double>(slots[i].out_shape[0]) * factor_);
    }
  }

  StepProfile profile_;
  double factor_;
  std::vector<bool> depends_;  // by slot: depends on the batch
};

// Interpolates between two traces; `near` is moved by `share` of the distance
// to `far`.
class ByLine {
 public:
  ByLine(const StepProfile& near, const StepProfile& far, double share)
      : profile_(near), far_(far), share_(share) {
    rises_ = far.model.batch > near.model.batch;
  }

  StepProfile change() {
    change_work();
    change_memory();
    change_shapes();
    return std::move(profile_);
  }

 private:
  double at(double near, double far) const {
    if (rises_ ? far < near : far > near) return near;
    return std::max(0.0, near + share_ * (far - near));
  }

  void change_work() {
    const auto far = sum_work(far_);
    std::map<PartKey, double> factors;
    for (const auto& [key, ns] : sum_work(profile_)) {
      const auto found = far.find(key);
      if (found != far.end() && ns > 0)
        factors[key] = at(ns, found->second) / ns;
    }
    scale_work(profile_, factors);
    change_loader();
  }
  // Proportional if only one of the two traces waits for data.
  void change_loader() {
    const auto here = static_cast<double>(profile_.step.loader_ns);
    const auto there = static_cast<double>(far_.step.loader_ns);
    const double ratio = static_cast<double>(far_.model.batch) /
                         static_cast<double>(profile_.model.batch);
    if (here > 0 || there > 0)
      profile_.step.loader_ns = whole(at(here > 0 ? here : there / ratio,
                                         there > 0 ? there : here * ratio));
  }

  // Matches a part's allocations in order, if both traces have the same number.
  void change_memory() {
    const auto far = by_birth(far_);
    for (const auto& [key, list] : by_birth(profile_)) {
      const auto found = far.find(key);
      if (found == far.end() || found->second.size() != list.size()) continue;
      for (At i = 0; i < list.size(); ++i) {
        std::int64_t& bytes = profile_.memory[list[i]].bytes;
        const std::int64_t there = far_.memory[found->second[i]].bytes;
        if (bytes != there)
          bytes = whole_pieces(
              at(static_cast<double>(bytes), static_cast<double>(there)));
      }
    }
    const auto change = [&](std::int64_t& bytes, std::int64_t there) {
      bytes = whole(at(static_cast<double>(bytes), static_cast<double>(there)));
    };
    change(profile_.model.bytes_before, far_.model.bytes_before);
    for (auto& [phase, bytes] : profile_.model.peak)
      if (const auto there = far_.model.peak.find(phase);
          there != far_.model.peak.end())
        change(bytes, there->second);
  }
  static std::map<PartKey, std::vector<At>> by_birth(
      const StepProfile& profile) {
    std::map<PartKey, std::vector<At>> list;
    for (At i = 0; i < profile.memory.size(); ++i) {
      const std::int32_t born = profile.memory[i].born;
      // Allocated before the step or after the model: two separate keys.
      list[key_of(profile, born, born < 0 ? static_cast<At>(-born) : 0)]
          .push_back(i);
    }
    return list;
  }

  void change_shapes() {
    auto& slots = profile_.graph.slots;
    for (At i = 0; i < slots.size(); ++i) {
      const Slot& there = far_.graph.slots[i];
      auto& inputs = slots[i].inputs;
      for (At k = 0; k < std::min(inputs.size(), there.inputs.size()); ++k)
        inputs[k].elements = at(inputs[k].elements, there.inputs[k].elements);
      auto& shape = slots[i].out_shape;
      for (At k = 0; k < std::min(shape.size(), there.out_shape.size()); ++k)
        shape[k] = whole(at(static_cast<double>(shape[k]),
                            static_cast<double>(there.out_shape[k])));
    }
  }

  StepProfile profile_;
  const StepProfile& far_;
  double share_;
  bool rises_ = true;
};

// Logarithm of the ratio of batch sizes, without sign.
double distance(const StepProfile& profile, std::int64_t batch) {
  return std::abs(std::log(static_cast<double>(batch) / batch_of(profile)));
}

}  // namespace

StepProfile at_batch(StepProfile trace, std::int64_t batch) {
  const double factor = static_cast<double>(batch) / batch_of(trace);
  if (factor == 1) return trace;
  StepProfile profile = ByRule(std::move(trace), factor).change();
  profile.model.batch = batch;
  return profile;
}

StepProfile at_batch(const StepProfile& one, const StepProfile& other,
                     std::int64_t batch) {
  check_one_model(one, other);
  SHEAF_CHECK(batch_of(one) != batch_of(other), one.file, " and ", other.file,
              " have the same batch, ", one.model.batch,
              "; two different batch sizes are needed");
  const bool is_one = distance(one, batch) <= distance(other, batch);
  const StepProfile& near = is_one ? one : other;
  const StepProfile& far = is_one ? other : one;
  const double share = (static_cast<double>(batch) - batch_of(near)) /
                       (batch_of(far) - batch_of(near));
  StepProfile profile = ByLine(near, far, share).change();
  profile.model.batch = batch;
  return profile;
}

std::vector<StepProfile> all_at_batch(const std::vector<StepProfile>& traces,
                                      std::int64_t batch) {
  std::map<Precision, std::vector<const StepProfile*>> by_precision;
  for (const StepProfile& one : traces)
    by_precision[one.model.precision].push_back(&one);
  std::vector<StepProfile> list;
  for (auto& [precision, group] : by_precision) {
    std::stable_sort(group.begin(), group.end(), [&](auto* a, auto* b) {
      return distance(*a, batch) < distance(*b, batch);
    });
    list.push_back(group.size() == 1 ? at_batch(*group[0], batch)
                                     : at_batch(*group[0], *group[1], batch));
  }
  return list;
}

}  // namespace sheaf::plan
