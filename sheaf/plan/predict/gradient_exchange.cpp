#include "sheaf/plan/predict/gradient_exchange.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

FactorScale scale_of(const ExchangeOptions& options) {
  return {options.workers,
          options.shares > 0 ? options.shares : options.workers};
}

void shorten(std::int64_t& ns, double part) {
  ns -= static_cast<std::int64_t>(static_cast<double>(ns) * part);
}

class ExchangeMaker {
 public:
  ExchangeMaker(StepGraph step, const StepProfile& profile,
                const ExchangeOptions& options,
                const std::vector<FactorLayer>& layers)
      : step_(std::move(step)),
        options_(options),
        costs_(layers, options.ways, scale_of(options)),
        forward_(costs_.parcels().forward, 0),
        backward_(costs_.parcels().backward, 1),
        gradient_part_(profile.graph.slots.size(), 0) {
    gradients_.assign(2 * profile.graph.slots.size(), 0);
    for (const Part& part : profile.parts)
      gradients_[side_of(part)] += part.gradients;
    find_factors();
    find_buckets(profile);
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
  // Parcels are sent in order, each when the last of its layers is done.
  struct Leaving {
    Leaving(Parcels list, int direction)
        : parcels(std::move(list)),
          is_ready(parcels.size()),
          is_backward(direction) {}
    Parcels parcels;
    std::vector<bool> is_ready;
    int is_backward;
    At next = 0;
  };

  // Biases belong to their weights.
  void find_factors() {
    for (At i = 0; i < costs_.layers().size(); ++i) {
      const FactorLayer& layer = costs_.layers()[i];
      if (!has_factors(costs_.way(i))) continue;
      is_factor_layer_.insert(layer.name);
      for (At k = 0; k < layer.slots.size(); ++k)
        gradient_part_[layer.slots[k]] = layer.gradient_part[k];
    }
    for (Leaving* leaving : {&forward_, &backward_})
      for (At i = 0; i < leaving->parcels.size(); ++i) {
        const FactorLayer& last = costs_.layers()[leaving->parcels[i].back()];
        parcel_of_[leaving->is_backward ? 2 * last.slots.front() + 1
                                        : 2 * last.slots.back()] = i;
      }
  }
  // Gradients become available approximately from the last layer to the first.
  void find_buckets(const StepProfile& profile) {
    const auto& parameters = profile.model.parameters;
    std::vector<BucketItem> items;
    std::vector<std::int64_t> elements;
    std::vector<At> order;
    for (auto one = parameters.rbegin(); one != parameters.rend(); ++one) {
      if (!is_factor_layer_.contains(one->layer)) order.push_back(items.size());
      const auto bytes = static_cast<At>(4 * one->elements);
      items.push_back({.bytes = bytes,
                       .goes_alone = goes_alone(bytes, options_.is_on_devices,
                                                !is_half())});
      elements.push_back(one->elements);
    }
    bucket_of_.assign(items.size(), kNone);
    const auto lists = plan_buckets(items, order, options_.caps);
    for (const auto& members : lists) {
      std::vector<std::int64_t> sizes;
      for (const At i : members) {
        bucket_of_[i] = static_cast<std::int32_t>(buckets_.size());
        sizes.push_back(elements[i]);
      }
      const bool is_last = buckets_.size() + 1 == lists.size();
      const BlockLayout block = lay_out_block(
          sizes, is_last ? status_place(items[members[0]].goes_alone)
                         : StatusPlace::kNone);
      buckets_.push_back({block.elements, members.size()});
      user_counts_ = is_last && !block.status_at ? 1 : 0;
    }
    parameters_ = static_cast<std::int64_t>(order.size());
  }
  bool is_half() const { return options_.ways.bulk() == Exchange::kHalf; }
  StatusPlace status_place(bool goes_alone) const {
    return plan::status_place(goes_alone, /*keeps_zeros=*/true,
                              options_.is_on_devices && !is_half(),
                              options_.hosts);
  }

  // Finds the last mark of each side and of all backward work.
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
      leave_out_gradient(marks.back());
      if (is_last_of_side(mark, i)) {
        if (mark.part % 2 != 0) take_gradients(mark.part, marks);
        take_factors(static_cast<At>(mark.part), marks);
      }
      if (thread == backward_thread_ &&
          static_cast<std::int64_t>(i) == backward_end_)
        finish(marks);
    }
    step_.threads[thread] = std::move(marks);
  }
  bool is_last_of_side(const ThreadMark& mark, At i) const {
    return mark.part != kNone && last_mark_[static_cast<At>(mark.part)] ==
                                     static_cast<std::int64_t>(i);
  }
  // A worker that sends factors does not compute the gradient of its own rows.
  void leave_out_gradient(ThreadMark& mark) {
    if (mark.part == kNone || mark.part % 2 == 0) return;
    const double part = gradient_part_[static_cast<At>(mark.part / 2)];
    if (part == 0) return;
    if (!is_device_)
      shorten(mark.cpu_ns, part);
    else if (mark.kernel != kNone)
      shorten(step_.kernels[static_cast<At>(mark.kernel)].ns, part);
  }

  void take_gradients(std::int32_t side, std::vector<ThreadMark>& marks) {
    for (int k = 0; k < gradients_[static_cast<At>(side)]; ++k) {
      if (taken_ == bucket_of_.size()) return;
      const std::int32_t bucket = bucket_of_[taken_++];
      if (bucket != kNone) --buckets_[static_cast<At>(bucket)].missing;
      while (next_ < buckets_.size() && buckets_[next_].missing == 0)
        start_bucket(marks);
    }
  }
  void start_bucket(std::vector<ThreadMark>& marks) {
    const std::int64_t elements = buckets_[next_++].elements;
    start({"all_reduce",
           is_half() ? half_exchange_bytes(elements, options_.hosts) / 4
                     : elements,
           {}},
          marks);
  }
  // A message that the exchange's own thread sends after others.
  void start_small(std::int64_t elements, std::vector<ThreadMark>& marks) {
    start({"all_reduce", elements, {}}, marks);
    marks[marks.size() - (options_.is_inline ? 2 : 1)].call_ns = 0;
  }
  void start(Collective collective, std::vector<ThreadMark>& marks) {
    KernelTask task;
    task.collective = static_cast<std::int32_t>(step_.collectives.size());
    step_.collectives.push_back(std::move(collective));
    launch(task, marks);
    if (options_.is_inline) wait(marks);
  }
  // Uses the exchange's own stream, after the work launched so far.
  void launch(KernelTask task, std::vector<ThreadMark>& marks) {
    ThreadMark mark;
    mark.kind = ThreadMark::Kind::kLaunch;
    mark.call_ns = options_.launch_ns;
    mark.kernel = static_cast<std::int32_t>(step_.kernels.size());
    task.stream = stream_;
    if (is_device_)
      for (auto one = marks.rbegin(); one != marks.rend(); ++one)
        if (one->kernel != kNone) {
          task.after.push_back(one->kernel);
          break;
        }
    step_.kernels.push_back(std::move(task));
    marks.push_back(mark);
  }
  static void wait(std::vector<ThreadMark>& marks) {
    ThreadMark mark;
    mark.kind = ThreadMark::Kind::kWaitAll;
    marks.push_back(mark);
  }

  // Without overlap all parcels are sent at the end.
  void take_factors(At side, std::vector<ThreadMark>& marks) {
    const auto found = parcel_of_.find(side);
    if (found == parcel_of_.end() || options_.is_inline) return;
    Leaving& leaving = side % 2 == 0 ? forward_ : backward_;
    leaving.is_ready[found->second] = true;
    while (leaving.next < leaving.parcels.size() &&
           leaving.is_ready[leaving.next])
      start_parcel(leaving, marks);
  }
  // Sends a header that describes the contents, then the contents, if any.
  void start_parcel(Leaving& leaving, std::vector<ThreadMark>& marks) {
    const auto& layers = leaving.parcels[leaving.next++];
    double bytes = 0, compression_ns = 0;
    for (const At layer : layers) {
      bytes += leaving.is_backward ? costs_.backward_bytes(layer)
                                   : costs_.forward_bytes(layer);
      if (leaving.is_backward) compression_ns += costs_.compression_ns(layer);
    }
    if (compression_ns > 0) {
      KernelTask task;
      task.ns = static_cast<std::int64_t>(compression_ns);
      launch(task, marks);
    }
    for (const double header : header_bytes(layers.size()))
      start_gather(header * options_.workers, marks);
    if (bytes > 0) start_gather(bytes, marks);
  }
  void start_gather(double bytes, std::vector<ThreadMark>& marks) {
    start({"all_gather", static_cast<std::int64_t>(bytes / 4), {}}, marks);
  }

  // Sends the rest; then the optimizer waits for the averages.
  void finish(std::vector<ThreadMark>& marks) {
    while (next_ < buckets_.size()) start_bucket(marks);
    if (user_counts_ > 0) start_small(parameters_, marks);
    for (Leaving* leaving : {&forward_, &backward_})
      while (leaving->next < leaving->parcels.size())
        start_parcel(*leaving, marks);
    if (!is_factor_layer_.empty()) finish_factors(marks);
    if (!is_device_) wait(marks);
  }
  void finish_factors(std::vector<ThreadMark>& marks) {
    for (int i = user_counts_; i < kMixedPassMessages; ++i)
      if (!buckets_.empty()) start_small(1, marks);
    wait(marks);
    ThreadMark products;
    double ns = 0;
    for (At i = 0; i < costs_.layers().size(); ++i) ns += costs_.gradient_ns(i);
    products.cpu_ns = static_cast<std::int64_t>(ns);
    marks.push_back(products);
  }
  // The optimizer's first kernel is the first one after the model's last part
  // that belongs to no part.
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
  FactorCosts costs_;
  Leaving forward_;
  Leaving backward_;
  std::vector<double> gradient_part_;  // by slot, for layers that send factors
  std::map<At, At> parcel_of_;         // by side that completes it
  std::set<std::string> is_factor_layer_;
  std::vector<int> gradients_;  // by side
  struct GradientBucket {
    std::int64_t elements = 0;
    At missing = 0;  // gradients that are not complete
  };
  std::vector<std::int32_t> bucket_of_;  // by gradient, in order of completion
  std::vector<GradientBucket> buckets_;
  std::int64_t parameters_ = 0;  // whose gradients are averaged
  int user_counts_ = 0;          // messages that count the users of parameters
  bool is_device_ = false;
  std::uint32_t stream_ = 0;
  std::vector<std::int64_t> last_mark_;  // by side
  At backward_thread_ = 0;
  std::int64_t backward_end_ = -1;
  std::vector<std::vector<std::int32_t>> new_mark_;
  std::size_t taken_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options) {
  std::vector<FactorLayer> layers;
  if (options.ways.has_any_factors()) layers = factor_layers(profile, step);
  return with_exchange(std::move(step), profile, options, layers);
}

StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options,
                        const std::vector<FactorLayer>& layers) {
  if (!step.collectives.empty()) return step;
  SHEAF_CHECK(!profile.model.parameters.empty(), profile.file,
              " does not record the model's parameters, so the exchanged data "
              "is unknown; record it with sheaf trace");
  return ExchangeMaker(std::move(step), profile, options, layers).make();
}

ExchangePlan ways_under(const ExchangePlan& ways, const ModelGraph& graph,
                        const std::vector<PrecisionPlan>& plans) {
  if (!ways.has_any_factors()) return ways;
  ExchangePlan result = ways;
  for (const Slot& slot : graph.slots) {
    if (slot.layer.empty() || !has_factors(ways.of(slot.layer))) continue;
    for (const PrecisionPlan& plan : plans)
      if (const Precision one = plan.of(slot.layer);
          one != Precision::kF32 && one != Precision::kTf32)
        result.layers[slot.layer] = ways.bulk();
  }
  return result;
}

void check_ways(const ExchangePlan& ways, const StepProfile& profile) {
  std::vector<std::string> known;
  for (const Slot& slot : profile.graph.slots)
    if (!slot.layer.empty()) known.push_back(slot.layer);
  check_exchange_layers(ways, known);
  const auto products = factor_layer_names(profile);
  for (const auto& [layer, way] : ways.layers)
    SHEAF_CHECK(!has_factors(way) || std::find(products.begin(), products.end(),
                                               layer) != products.end(),
                layer, " cannot be exchanged by ", to_string(way),
                ": it is not a product of rows with a weight; exchange its "
                "gradient");
}

std::vector<double> collective_bytes(const StepGraph& step) {
  std::vector<double> bytes;
  for (const Collective& one : step.collectives)
    bytes.push_back(
        4.0 * static_cast<double>(std::max<std::int64_t>(one.elements, 0)));
  return bytes;
}

}  // namespace sheaf::plan
