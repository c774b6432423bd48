#include "sheaf/plan/graph/operator_map.hpp"

#include <cctype>
#include <map>
#include <unordered_map>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
constexpr std::string_view kAccumulate = "AccumulateGrad";
constexpr std::string_view kCopyBack = "ddp.reducer::copy_bucket_to_grad";

// Number of nodes an operator may create besides the recorded one.
constexpr std::int64_t kFurtherNodes = 1;

bool is_engine(const std::string& name) {
  return name.compare(0, kEngine.size(), kEngine) == 0;
}

bool takes_gradient(const std::string& name) {
  return is_engine(name) && name.find(kAccumulate) != std::string::npos;
}

// "aten::max_pool2d" and "MaxPool2DBackward0" are both "maxpool2d".
std::string plain(std::string_view name) {
  if (const auto at = name.rfind("::"); at != std::string_view::npos)
    name.remove_prefix(at + 2);
  if (const auto at = name.rfind("Backward"); at != std::string_view::npos)
    name = name.substr(0, at);
  std::string text;
  for (const char one : name)
    if (one != '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(one)));
  return text;
}

class Mapper {
 public:
  Mapper(const StepTrace& step, const Names& names,
         const CustomOperators& custom)
      : step_(step), names_(names) {
    for (const CustomOperator& one : custom)
      for (const std::string& backward : one.backward)
        forward_name_[plain(backward)] = plain(one.name);
    const std::size_t count = step.operators.size();
    map_.parent.assign(count, -1);
    map_.outermost.assign(count, -1);
    map_.source.assign(count, -1);
    depth_.assign(count, 0);
    is_backward_.assign(count, false);
  }

  OperatorMap run() {
    nest();
    index_forward();
    std::vector<std::int32_t> last(step_.threads.size(), -1);
    for (std::size_t i = 0; i < step_.operators.size(); ++i) {
      const std::string& name = names_[step_.operators[i].name];
      if (!is_engine(name)) continue;
      std::int32_t& before = last[step_.operators[i].thread];
      if (takes_gradient(name)) {
        ++map_.accumulated;
        attach_gradient(i, before);
      } else {
        ++map_.backward;
        match(i);
        before = static_cast<std::int32_t>(i);
      }
    }
    return std::move(map_);
  }

 private:
  // Operators are sorted by start, the longer one first.
  void nest() {
    std::vector<std::vector<std::int32_t>> open(step_.threads.size());
    for (std::size_t i = 0; i < step_.operators.size(); ++i) {
      const TracedOperator& one = step_.operators[i];
      auto& stack = open[one.thread];
      while (!stack.empty() && span(stack.back()).end_ns <= one.span.begin_ns)
        stack.pop_back();
      const auto self = static_cast<std::int32_t>(i);
      const std::int32_t parent = stack.empty() ? -1 : stack.back();
      map_.parent[i] = parent;
      map_.outermost[i] =
          parent < 0 ? self : map_.outermost[static_cast<std::size_t>(parent)];
      depth_[i] = static_cast<int>(stack.size());
      is_backward_[i] =
          is_engine(names_[one.name]) ||
          (parent >= 0 && is_backward_[static_cast<std::size_t>(parent)]);
      stack.push_back(self);
    }
  }
  const Span& span(std::int32_t one) const {
    return step_.operators[static_cast<std::size_t>(one)].span;
  }

  // Operators around the one that created the node may have the same number:
  // the deepest one created it; among equals, the last.
  void index_forward() {
    for (std::size_t i = 0; i < step_.operators.size(); ++i) {
      const std::int64_t number = step_.operators[i].sequence;
      if (number < 0 || is_backward_[i]) continue;
      const auto [at, is_new] =
          forward_.try_emplace(number, static_cast<std::int32_t>(i));
      if (!is_new && depth_[i] >= depth_[static_cast<std::size_t>(at->second)])
        at->second = static_cast<std::int32_t>(i);
    }
  }

  void match(std::size_t i) {
    const std::int64_t number = step_.operators[i].sequence;
    if (number < 0) return match_by_name(i);
    // In-place operators create a second node, whose number is not recorded.
    auto found = forward_.upper_bound(number);
    if (found == forward_.begin() || (--found)->first < number - kFurtherNodes)
      return fail(i,
                  concat("no forward operator of the step has sequence number ",
                         number));
    map_.source[i] = found->second;
  }
  // Backward runs in reverse order, so the last match is used first.
  void match_by_name(std::size_t i) {
    if (by_name_.empty()) index_names();
    const std::string_view function =
        std::string_view(names_[step_.operators[i].name])
            .substr(kEngine.size());
    std::string wanted = plain(function);
    if (const auto known = forward_name_.find(wanted);
        known != forward_name_.end())
      wanted = known->second;
    const auto found = by_name_.find(wanted);
    if (found == by_name_.end() || found->second.empty())
      return fail(i, concat("it has no sequence number, and no unmatched "
                            "forward operator has its name: \"",
                            wanted, "\""));
    map_.source[i] = found->second.back();
    found->second.pop_back();
    ++map_.by_name;
  }
  // Of nested operators with the same name, uses the innermost.
  void index_names() {
    for (std::size_t i = 0; i < step_.operators.size(); ++i) {
      if (is_backward_[i]) continue;
      auto& list = by_name_[plain(names_[step_.operators[i].name])];
      if (!list.empty() && map_.parent[i] == list.back()) list.pop_back();
      list.push_back(static_cast<std::int32_t>(i));
    }
  }
  void attach_gradient(std::size_t i, std::int32_t before) {
    if (before < 0) return fail(i, "no backward function precedes it");
    map_.source[i] = before;
  }
  void fail(std::size_t i, std::string reason) {
    map_.unmatched.push_back({static_cast<std::int32_t>(i), std::move(reason)});
  }

  const StepTrace& step_;
  const Names& names_;
  OperatorMap map_;
  std::vector<int> depth_;
  std::vector<bool> is_backward_;
  std::map<std::int64_t, std::int32_t> forward_;
  std::map<std::string, std::string> forward_name_;  // by backward name
  std::map<std::string, std::vector<std::int32_t>> by_name_;
};

}  // namespace

OperatorMap map_operators(const StepTrace& step, const Names& names,
                          const CustomOperators& custom) {
  return Mapper(step, names, custom).run();
}

// DDP records what it copies back after an all-reduce, bucket by bucket.
std::vector<std::int64_t> ddp_gradient_bytes(const StepTrace& step,
                                             const Names& names) {
  std::unordered_map<std::int64_t, std::int64_t> copied;
  for (const TracedKernel& kernel : step.kernels)
    if (kernel.bytes >= 0) copied[kernel.correlation] = kernel.bytes;
  std::vector<std::int64_t> list;
  std::size_t call = 0;
  for (const TracedOperator& one : step.operators) {
    if (names[one.name].find(kCopyBack) == std::string::npos) continue;
    while (call < step.calls.size() &&
           step.calls[call].span.begin_ns < one.span.begin_ns)
      ++call;
    for (; call < step.calls.size() &&
           step.calls[call].span.begin_ns < one.span.end_ns;
         ++call)
      if (const auto found = copied.find(step.calls[call].correlation);
          found != copied.end() && step.calls[call].thread == one.thread)
        list.push_back(found->second);
  }
  return list;
}

std::vector<std::int64_t> ddp_bucket_bytes(
    const std::vector<std::int64_t>& gradients, const BucketCaps& caps) {
  std::vector<std::int64_t> buckets;
  std::int64_t filled = 0;
  for (const std::int64_t bytes : gradients) {
    filled += bytes;
    const std::size_t cap = buckets.empty() ? caps.first_bytes : caps.bytes;
    if (static_cast<std::size_t>(filled) < cap) continue;
    buckets.push_back(filled);
    filled = 0;
  }
  if (filled > 0) buckets.push_back(filled);
  return buckets;
}

}  // namespace sheaf::plan
