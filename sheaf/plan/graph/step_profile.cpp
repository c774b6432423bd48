#include "sheaf/plan/graph/step_profile.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"

namespace sheaf::plan {
namespace {

// A thread that is idle for longer is between two parts.
constexpr std::int64_t kBetweenNs = 50'000;
constexpr std::string_view kEngineName = "autograd::engine::";
constexpr std::string_view kGradientName = "AccumulateGrad";

class ProfileMaker {
 public:
  // `model` is that of the trace, or null if it has none.
  ProfileMaker(const Trace& trace, std::size_t step, const std::string& file,
               const TracedModel* model, const CustomOperators& custom)
      : names_(trace.names), step_(trace.steps[step]), custom_(custom) {
    profile_.file = file;
    profile_.device_name = trace.header.device_name;
    map_ = map_operators(step_, names_, custom_);
    find_phases();
    find_outermost();
    profile_.model = model ? *model : model_of_operators();
    profile_.graph = make_model_graph(profile_.model);
  }

  StepProfile make() {
    place_forward();
    place_backward();
    make_cuts();
    profile_.step = make_graph(step_, names_, cuts_);
    find_stretches();
    follow_memory();
    for (const auto& [of, reason] : map_.unmatched)
      profile_.notes.push_back(concat(name_of(of), ": ", reason));
    return std::move(profile_);
  }

 private:
  using At = std::size_t;

  const std::string& name_of(std::int32_t one) const {
    return names_[step_.operators[static_cast<At>(one)].name];
  }
  bool is_engine(std::int32_t one) const {
    return name_of(one).starts_with(kEngineName);
  }

  void find_outermost() {
    for (At i = 0; i < step_.operators.size(); ++i)
      if (map_.parent[i] < 0)
        outermost_.push_back(static_cast<std::int32_t>(i));
    for (const std::int32_t one : outermost_)
      if (is_engine(one))
        first_backward_ns_ = std::min(first_backward_ns_, begin_of(one));
    for (const std::int32_t one : outermost_)
      if (is_forward(one)) forward_.push_back(one);
  }
  std::int64_t begin_of(std::int32_t one) const {
    return step_.operators[static_cast<At>(one)].span.begin_ns;
  }

  // The forward phases, sorted by start; each ends with the latest of those
  // before it, so that the last one to begin before an operator tells whether
  // any phase contains it.
  void find_phases() {
    for (const TracedScope& scope : step_.scopes) {
      const std::string& name = names_[scope.name];
      if (name != "sheaf::phase forward" && name != "sheaf::phase loss")
        continue;
      phases_.push_back(scope.span);
      if (phases_.size() > 1)
        phases_.back().end_ns =
            std::max(scope.span.end_ns, phases_[phases_.size() - 2].end_ns);
    }
  }

  // Whether the operator is in a forward phase recorded by Sheaf or, without
  // phases, before the first backward function.
  bool is_forward(std::int32_t one) const {
    const TracedOperator& traced = step_.operators[static_cast<At>(one)];
    if (traced.thread != 0 || is_engine(one)) return false;
    if (phases_.empty()) return traced.span.begin_ns < first_backward_ns_;
    const auto after = std::partition_point(
        phases_.begin(), phases_.end(), [&](const Span& phase) {
          return phase.begin_ns <= traced.span.begin_ns;
        });
    return after != phases_.begin() &&
           traced.span.end_ns <= std::prev(after)->end_ns;
  }

  // Without a model description, the operators form a chain and products are
  // layers.
  TracedModel model_of_operators() const {
    TracedModel model;
    std::map<std::string, int> seen;
    for (const std::int32_t one : forward_) {
      ModelNode node;
      node.op = name_of(one);
      if (may_change(node.op))
        node.layer = concat(node.op.substr(node.op.find("::") + 2), "#",
                            seen[node.op]++);
      node.inputs.push_back(static_cast<std::int32_t>(model.nodes.size()) - 1);
      node.type = Precision::kF32;
      node.out_shapes = {{0}};  // unknown
      model.nodes.push_back(std::move(node));
    }
    return model;
  }

  bool may_change(const std::string& op) const {
    for (const CustomOperator& one : custom_)
      if (one.name == op) return one.may_change;
    for (const char* product :
         {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::linear",
          "aten::matmul", "aten::addmm", "aten::bmm"})
      if (op == product) return true;
    return false;
  }

  void place_forward() {
    const auto& nodes = profile_.model.nodes;
    part_of_.assign(step_.operators.size(), kNone);
    for (At i = 0; i < forward_.size() && i < nodes.size(); ++i) {
      SHEAF_CHECK(name_of(forward_[i]) == nodes[i].op, profile_.file,
                  ": operator ", i, " of the forward pass is ",
                  name_of(forward_[i]), ", but the model's is ", nodes[i].op,
                  "; the steps of the trace differ, record it again");
      part_of_[static_cast<At>(forward_[i])] =
          part(profile_.graph.slot_of_node[i], false,
               profile_.graph.cast_of_node[i]);
      node_of_[forward_[i]] = i;
    }
    SHEAF_CHECK(forward_.size() == nodes.size(), profile_.file, ": a step has ",
                forward_.size(),
                " operators in its forward pass, but the model has ",
                nodes.size(), "; record it again");
  }

  // Assigns backward functions to the part of their forward operator;
  // accumulating a gradient belongs to the function before it.
  void place_backward() {
    for (const std::int32_t one : outermost_) {
      if (!is_engine(one)) continue;
      std::int32_t source = map_.source[static_cast<At>(one)];
      const bool takes_gradient =
          name_of(one).find(kGradientName) != std::string::npos;
      if (takes_gradient && source >= 0) {
        const std::int32_t place = part_of_[static_cast<At>(source)];
        part_of_[static_cast<At>(one)] = place;
        if (place != kNone) ++profile_.parts[static_cast<At>(place)].gradients;
        continue;
      }
      if (source < 0) continue;
      source = map_.outermost[static_cast<At>(source)];
      const auto node = node_of_.find(source);
      if (node == node_of_.end()) continue;
      part_of_[static_cast<At>(one)] =
          part(profile_.graph.slot_of_node[node->second], true,
               profile_.graph.cast_of_node[node->second]);
    }
  }

  std::int32_t part(std::int32_t slot, bool is_backward, std::int32_t cast) {
    const auto [at, is_new] = number_of_.try_emplace(
        {slot, is_backward, cast},
        static_cast<std::int32_t>(profile_.parts.size()));
    if (is_new) profile_.parts.push_back({slot, is_backward, cast});
    return at->second;
  }

  void make_cuts() {
    std::vector<std::vector<std::int32_t>> by_thread(step_.threads.size());
    for (const std::int32_t one : outermost_)
      by_thread[step_.operators[static_cast<At>(one)].thread].push_back(one);
    for (std::uint32_t thread = 0; thread < by_thread.size(); ++thread) {
      std::int32_t now = kNone;
      std::int64_t end = 0;
      const auto cut = [&](std::int64_t ns, std::int32_t next) {
        if (next != now) cuts_.push_back({thread, ns, next});
        now = next;
      };
      for (const std::int32_t one : by_thread[thread]) {
        if (begin_of(one) - end > kBetweenNs) cut(end, kNone);
        cut(begin_of(one), part_of_[static_cast<At>(one)]);
        end = step_.operators[static_cast<At>(one)].span.end_ns;
      }
      cut(end, kNone);
    }
    std::copy_if(cuts_.begin(), cuts_.end(), std::back_inserter(by_time_),
                 [](const Cut& cut) { return cut.part != kNone; });
    std::stable_sort(by_time_.begin(), by_time_.end(),
                     [](const Cut& a, const Cut& b) { return a.ns < b.ns; });
  }

  void find_stretches() {
    const auto& threads = profile_.step.threads;
    for (std::uint32_t thread = 0; thread < threads.size(); ++thread)
      for (std::size_t i = 0; i < threads[thread].size(); ++i) {
        auto& list = profile_.stretches;
        const std::int32_t here = threads[thread][i].part;
        if (list.empty() || list.back().thread != thread ||
            list.back().part != here)
          list.push_back({here, thread, i, 0});
        ++list.back().count;
      }
  }

  // The part at that time or, between parts, the next one.
  std::int32_t next_part(std::uint32_t thread, std::int64_t ns) const {
    const auto after =
        std::partition_point(cuts_.begin(), cuts_.end(), [&](const Cut& cut) {
          return std::tuple(cut.thread, cut.ns) <= std::tuple(thread, ns);
        });
    if (after != cuts_.begin() && std::prev(after)->thread == thread &&
        std::prev(after)->part != kNone)
      return std::prev(after)->part;
    const auto next =
        std::partition_point(by_time_.begin(), by_time_.end(),
                             [&](const Cut& cut) { return cut.ns < ns; });
    return next == by_time_.end() ? kAfterAll : next->part;
  }

  void follow_memory() {
    const bool is_device = profile_.step.has_device;
    auto& list = profile_.memory;
    std::map<std::uint64_t, std::size_t> open;
    for (const TracedMemory& one : step_.memory) {
      if (one.is_device != is_device) continue;
      const std::int32_t here = next_part(one.thread, one.ns);
      if (one.bytes > 0) {
        open[one.address] = list.size();
        profile_.memory_events.push_back({list.size(), false});
        list.push_back({one.bytes, here, kAfterAll});
        continue;
      }
      auto found = open.find(one.address);
      if (found == open.end()) {  // allocated before the step
        found = open.emplace(one.address, list.size()).first;
        list.push_back({-one.bytes, kBeforeAll, kAfterAll});
      }
      list[found->second].died = here;
      profile_.memory_events.push_back({found->second, true});
      open.erase(found);
    }
  }

  const Names& names_;
  const StepTrace& step_;
  const CustomOperators& custom_;
  StepProfile profile_;
  OperatorMap map_;
  std::vector<std::int32_t> outermost_;
  std::vector<std::int32_t> forward_;
  std::int64_t first_backward_ns_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> part_of_;  // by operator
  std::map<std::int32_t, std::size_t> node_of_;
  std::map<std::tuple<std::int32_t, bool, std::int32_t>, std::int32_t>
      number_of_;
  std::vector<Span> phases_;
  std::vector<Cut> cuts_;     // sorted by thread, then by time
  std::vector<Cut> by_time_;  // those with a part
};

using Marks = std::vector<ThreadMark>;

bool are_alike(const Marks& a, const Marks& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ThreadMark& x, const ThreadMark& y) {
                      return x.kind == y.kind && x.part == y.part &&
                             x.kernel == y.kernel;
                    });
}

std::int64_t median_of(const std::vector<double>& times) {
  return static_cast<std::int64_t>(median(times));
}

std::int64_t sum_of(const Marks& marks) {
  std::int64_t sum = 0;
  for (const ThreadMark& mark : marks) sum += mark.cpu_ns;
  return sum;
}

// Sets each mark to its median over the steps, then scales all so that their
// sum is the median sum: disturbances hit different marks in each step, but
// occur in every step.
void smooth(Marks& marks, const std::vector<const Marks*>& all) {
  std::vector<double> sums;
  for (const Marks* one : all)
    sums.push_back(static_cast<double>(sum_of(*one)));
  for (std::size_t i = 0; i < marks.size(); ++i) {
    std::vector<double> times;
    for (const Marks* one : all)
      times.push_back(static_cast<double>((*one)[i].cpu_ns));
    marks[i].cpu_ns = median_of(times);
  }
  const auto sum = static_cast<double>(sum_of(marks));
  const double factor = sum > 0 ? median(sums) / sum : 1;
  for (ThreadMark& mark : marks)
    mark.cpu_ns =
        static_cast<std::int64_t>(static_cast<double>(mark.cpu_ns) * factor);
}

// Reduces disturbances of the step by medians over several steps.
void smooth(StepGraph& step, const std::vector<StepGraph>& others) {
  const StepGraph before = step;
  for (std::size_t t = 0; t < step.threads.size(); ++t) {
    std::vector<const Marks*> all{&before.threads[t]};
    for (const StepGraph& other : others)
      if (t < other.threads.size() &&
          are_alike(before.threads[t], other.threads[t]))
        all.push_back(&other.threads[t]);
    if (all.size() >= 3) smooth(step.threads[t], all);
  }
  for (std::size_t k = 0; k < step.kernels.size(); ++k) {
    std::vector<double> times{static_cast<double>(step.kernels[k].ns)};
    for (const StepGraph& other : others)
      if (other.kernels.size() == step.kernels.size())
        times.push_back(static_cast<double>(other.kernels[k].ns));
    step.kernels[k].ns = median_of(times);
  }
}

std::size_t typical_step(const Trace& trace) {
  std::vector<std::pair<std::int64_t, std::size_t>> times;
  for (std::size_t i = 0; i < trace.steps.size(); ++i)
    times.push_back({trace.steps[i].span.ns(), i});
  std::sort(times.begin(), times.end());
  return times[times.size() / 2].second;
}

std::optional<TracedModel> model_in(const Trace& trace,
                                    const std::string& file) {
  if (trace.header.model.empty()) return std::nullopt;
  return parse_model(trace.header.model, file);
}

}  // namespace

StepProfile make_profile(const Trace& trace, std::size_t step,
                         const std::string& file,
                         const CustomOperators& custom) {
  const auto model = model_in(trace, file);
  return ProfileMaker(trace, step, file, model ? &*model : nullptr, custom)
      .make();
}

StepProfile read_profile(const std::filesystem::path& path,
                         const CustomOperators& custom) {
  const Trace trace = read_steps(path);
  const std::size_t typical = typical_step(trace);
  const auto model = model_in(trace, path.string());
  const auto profile_of = [&](std::size_t step) {
    return ProfileMaker(trace, step, path.string(), model ? &*model : nullptr,
                        custom)
        .make();
  };
  StepProfile profile = profile_of(typical);
  std::vector<StepGraph> others;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) try {
      if (i != typical) others.push_back(profile_of(i).step);
    } catch (const UsageError&) {
      // Ignores steps that do not match the model.
    }
  smooth(profile.step, others);
  for (const StepTrace& step : trace.steps)
    profile.step_ns.push_back(static_cast<double>(step.span.ns()));
  take_out_data_wait(profile, trace);
  return profile;
}

// All of n steps are below the p-quantile with probability p^n. Outliers
// reflect the recording rather than future steps.
double wait_for_slowest(const StepProfile& profile, int workers) {
  if (profile.step_ns.empty()) return 1;
  const double usual = median(profile.step_ns);
  const double far = 4 * robust_spread(profile.step_ns);
  std::vector<double> near;
  for (const double ns : profile.step_ns)
    if (std::abs(ns - usual) <= far) near.push_back(ns);
  const double percent = 100 * std::pow(0.5, 1.0 / workers);
  return near.empty() ? 1 : std::max(1.0, percentile(near, percent) / usual);
}

}  // namespace sheaf::plan
