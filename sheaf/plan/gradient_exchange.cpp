#include "sheaf/plan/gradient_exchange.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// What dAD does with a model's layers that are products.
struct FactorWork {
  double bytes = 0;               // of one worker's inputs and deltas
  std::int64_t weight_bytes = 0;  // whose gradients are not exchanged
  double ns = 0;                  // of these gradients, with its own rows
};

// Inputs (rows x in) and deltas (rows x out) make the gradient of a weight
// (in x out): half of the backward pass, but for a first layer all of it.
FactorWork factors_of(const StepProfile& profile,
                      const std::vector<double>& backward_ns) {
  FactorWork work;
  for (At i = 0; i < profile.graph.slots.size(); ++i) {
    const Slot& slot = profile.graph.slots[i];
    const bool is_product = slot.op == "aten::linear" ||
                            slot.op == "aten::addmm" || slot.op == "aten::mm" ||
                            slot.op == "aten::matmul";
    if (!is_product || slot.weight_elements == 0 || slot.out_shape.empty())
      continue;
    const auto out = static_cast<double>(slot.out_shape.back());
    const double rows = elements_of(slot.out_shape) / out;
    work.bytes += 4 * rows * (slot.weight_elements / out + out);
    work.weight_bytes += static_cast<std::int64_t>(4 * slot.weight_elements);
    work.ns += backward_ns[i] * (slot.inputs.empty() ? 1 : 0.5);
  }
  return work;
}

class ExchangeMaker {
 public:
  ExchangeMaker(StepGraph step, const StepProfile& profile,
                const ExchangeOptions& options)
      : step_(std::move(step)), options_(options) {
    gradients_.assign(2 * profile.graph.slots.size(), 0);
    for (const Part& part : profile.parts)
      gradients_[side_of(part)] += part.gradients;
    // Gradients come, nearly, in the order of layers from the last to the
    // first.
    for (auto one = profile.model.parameters.rbegin();
         one != profile.model.parameters.rend(); ++one)
      bytes_.push_back(one->elements * 4);
    if (options.kind == ExchangeKind::kFactors)
      factors_ = factors_of(profile, backward_work(profile));
    else
      buckets_ = bucket_bytes(bytes_, options.buckets);
    is_device_ = step_.has_device;
    stream_ = static_cast<std::uint32_t>(step_.streams);
  }

  StepGraph make() {
    find_last_marks();
    step_.streams += 1;
    new_mark_.resize(step_.threads.size());
    for (At thread = 0; thread < step_.threads.size(); ++thread) add_to(thread);
    if (is_device_) let_optimizer_wait();
    for (auto& thread : step_.threads)
      for (ThreadMark& mark : thread)
        if (mark.other_thread != kNone)
          mark.other_mark = new_mark_[static_cast<At>(mark.other_thread)]
                                     [static_cast<At>(mark.other_mark)];
    return std::move(step_);
  }

 private:
  // Of each side, and of all backward work.
  void find_last_marks() {
    last_mark_.assign(gradients_.size(), -1);
    for (At thread = 0; thread < step_.threads.size(); ++thread)
      for (At i = 0; i < step_.threads[thread].size(); ++i) {
        const std::int32_t side = step_.threads[thread][i].part;
        if (side == kNone) continue;
        last_mark_[static_cast<At>(side)] = static_cast<std::int64_t>(i);
        if (side % 2 != 0) {
          backward_thread_ = thread;
          backward_end_ = std::max(backward_end_, static_cast<std::int64_t>(i));
        }
      }
  }

  void add_to(At thread) {
    std::vector<ThreadMark> marks;
    for (At i = 0; i < step_.threads[thread].size(); ++i) {
      const ThreadMark& mark = step_.threads[thread][i];
      new_mark_[thread].push_back(static_cast<std::int32_t>(marks.size()));
      marks.push_back(mark);
      if (is_last_of_side(mark, i)) take_gradients(mark.part, marks);
      if (thread == backward_thread_ &&
          static_cast<std::int64_t>(i) == backward_end_)
        finish(marks);
    }
    step_.threads[thread] = std::move(marks);
  }
  bool is_last_of_side(const ThreadMark& mark, At i) const {
    return mark.part != kNone && mark.part % 2 != 0 &&
           last_mark_[static_cast<At>(mark.part)] ==
               static_cast<std::int64_t>(i);
  }

  void take_gradients(std::int32_t side, std::vector<ThreadMark>& marks) {
    for (int k = 0; k < gradients_[static_cast<At>(side)]; ++k) {
      if (taken_ == bytes_.size()) return;
      filled_ += bytes_[taken_++];
      while (next_ < buckets_.size() && filled_ >= buckets_[next_]) {
        filled_ -= buckets_[next_];
        start_bucket(marks);
      }
    }
  }
  void start_bucket(std::vector<ThreadMark>& marks) {
    const int bytes = options_.kind == ExchangeKind::kHalf ? 8 : 4;
    start({"all_reduce", buckets_[next_++] / bytes, {}}, marks);
  }
  void start(Collective collective, std::vector<ThreadMark>& marks) {
    const auto number = static_cast<std::int32_t>(step_.collectives.size());
    step_.collectives.push_back(std::move(collective));
    ThreadMark mark;
    mark.kind = ThreadMark::Kind::kLaunch;
    mark.call_ns = options_.launch_ns;
    mark.kernel = static_cast<std::int32_t>(step_.kernels.size());
    KernelTask task;
    task.stream = stream_;
    task.collective = number;
    if (is_device_ && !marks.empty())
      for (auto one = marks.rbegin(); one != marks.rend(); ++one)
        if (one->kernel != kNone) {
          task.after.push_back(one->kernel);
          break;
        }
    step_.kernels.push_back(task);
    marks.push_back(mark);
    if (options_.is_inline) wait(marks);
  }
  static void wait(std::vector<ThreadMark>& marks) {
    ThreadMark mark;
    mark.kind = ThreadMark::Kind::kWaitAll;
    marks.push_back(mark);
  }

  // What is left; then the optimiser waits for the averages.
  void finish(std::vector<ThreadMark>& marks) {
    while (next_ < buckets_.size()) start_bucket(marks);
    if (options_.kind == ExchangeKind::kFactors) exchange_factors(marks);
    if (!is_device_) wait(marks);
  }
  void exchange_factors(std::vector<ThreadMark>& marks) {
    std::int64_t rest = -factors_.weight_bytes;
    for (const std::int64_t bytes : bytes_) rest += bytes;
    start({"all_gather",
           static_cast<std::int64_t>(factors_.bytes * options_.workers / 4),
           {}},
          marks);
    if (rest > 0) start({"all_reduce", rest / 4, {}}, marks);
    wait(marks);
    ThreadMark products;
    products.cpu_ns =
        static_cast<std::int64_t>(factors_.ns * (options_.workers - 1));
    marks.push_back(products);
  }
  std::vector<double> backward_work(const StepProfile& profile) const {
    std::vector<double> work(profile.graph.slots.size());
    for (const auto& thread : step_.threads)
      for (const ThreadMark& mark : thread) {
        if (mark.part == kNone || mark.part % 2 == 0) continue;
        work[static_cast<At>(mark.part / 2)] +=
            static_cast<double>(work_ns(step_, mark));
      }
    return work;
  }
  // Its first kernel is the first of none of the model's parts after them.
  void let_optimizer_wait() {
    const ThreadMark* first = nullptr;
    for (const ThreadMark& mark : step_.threads[0])
      if (mark.part != kNone)
        first = nullptr;
      else if (first == nullptr && is_plain_launch(mark))
        first = &mark;
    if (first == nullptr) return;
    auto& after = step_.kernels[static_cast<At>(first->kernel)].after;
    for (At i = 0; i < step_.kernels.size(); ++i)
      if (step_.kernels[i].collective != kNone)
        after.push_back(static_cast<std::int32_t>(i));
  }
  bool is_plain_launch(const ThreadMark& mark) const {
    return mark.kernel != kNone &&
           step_.kernels[static_cast<At>(mark.kernel)].collective == kNone;
  }

  StepGraph step_;
  const ExchangeOptions& options_;
  std::vector<int> gradients_;         // by side
  std::vector<std::int64_t> bytes_;    // of gradients, as they come
  std::vector<std::int64_t> buckets_;  // bytes
  FactorWork factors_;
  bool is_device_ = false;
  std::uint32_t stream_ = 0;
  std::vector<std::int64_t> last_mark_;  // by side
  At backward_thread_ = 0;
  std::int64_t backward_end_ = -1;
  std::vector<std::vector<std::int32_t>> new_mark_;
  std::size_t taken_ = 0;
  std::size_t next_ = 0;
  std::int64_t filled_ = 0;
};

}  // namespace

ExchangeKind parse_exchange(const std::string& text) {
  if (text == "gradients") return ExchangeKind::kGradients;
  if (text == "half") return ExchangeKind::kHalf;
  if (text == "dad") return ExchangeKind::kFactors;
  throw UsageError(concat("there is no exchange \"", text,
                          "\"; there are gradients, half and dad"));
}

StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options) {
  if (!step.collectives.empty()) return step;
  SHEAF_CHECK(!profile.model.parameters.empty(), profile.file,
              " does not tell the model's parameters, so what ranks exchange "
              "is not known; record it with sheaf trace");
  return ExchangeMaker(std::move(step), profile, options).make();
}

std::vector<double> collective_bytes(const StepGraph& step) {
  std::vector<double> bytes;
  for (const Collective& one : step.collectives)
    bytes.push_back(
        4.0 * static_cast<double>(std::max<std::int64_t>(one.elements, 0)));
  return bytes;
}

}  // namespace sheaf::plan
