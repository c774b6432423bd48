#include "sheaf/plan/predict/gradient_exchange.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/planned_messages.hpp"

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

// Rewrites the threads of a step: copies their marks and inserts the launches
// of the exchange, and waits for it.
class ExchangeMaker {
 public:
  ExchangeMaker(StepGraph step, const StepProfile& profile,
                const ExchangeOptions& options,
                const std::vector<FactorLayer>& layers)
      : step_(std::move(step)),
        options_(options),
        parcels_(layers, options.routes, scale_of(options)),
        buckets_(
            profile, parcels_.layers(),
            {options.caps, is_half(), options.is_on_devices, options.hosts}),
        gradients_(2 * profile.graph.slots.size()),
        stream_(static_cast<std::uint32_t>(step_.streams)) {
    for (const Part& part : profile.parts)
      gradients_[side_of(part)] += part.gradients;
  }

  StepGraph make() {
    find_last_marks();
    step_.streams += 1;
    new_mark_.resize(step_.threads.size());
    for (At thread = 0; thread < step_.threads.size(); ++thread) add_to(thread);
    if (step_.has_device) let_optimizer_wait();
    for (auto& thread : step_.threads)
      for (ThreadMark& mark : thread)
        if (mark.other_thread != kNone)
          mark.other_mark = new_mark_[static_cast<At>(mark.other_thread)]
                                     [static_cast<At>(mark.other_mark)];
    return std::move(step_);
  }

 private:
  bool is_half() const { return options_.routes.bulk() == Route::kHalf; }

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
        if (mark.part % 2 != 0) send_gradients(mark.part, marks);
        send_factors(static_cast<At>(mark.part), marks);
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
    const double part = parcels_.omitted_part(static_cast<At>(mark.part / 2));
    if (part == 0) return;
    if (!step_.has_device)
      shorten(mark.cpu_ns, part);
    else if (mark.kernel != kNone)
      shorten(step_.kernels[static_cast<At>(mark.kernel)].ns, part);
  }

  void send_gradients(std::int32_t side, std::vector<ThreadMark>& marks) {
    for (int k = 0; k < gradients_[static_cast<At>(side)]; ++k) {
      buckets_.complete_gradient();
      while (const auto elements = buckets_.take_complete())
        start_bucket(*elements, marks);
    }
  }
  void start_bucket(std::int64_t elements, std::vector<ThreadMark>& marks) {
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
    if (step_.has_device)
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
  void send_factors(At side, std::vector<ThreadMark>& marks) {
    if (options_.is_inline) return;
    parcels_.complete_side(side);
    while (const auto parcel = parcels_.take_ready())
      start_parcel(*parcel, marks);
  }
  // Sends a header that describes the contents, then the contents, if any.
  void start_parcel(const PlannedParcels::Parcel& parcel,
                    std::vector<ThreadMark>& marks) {
    if (parcel.compression_ns > 0) {
      KernelTask task;
      task.ns = static_cast<std::int64_t>(parcel.compression_ns);
      launch(task, marks);
    }
    for (const double header : header_bytes(parcel.layers))
      start_gather(header * options_.workers, marks);
    if (parcel.bytes > 0) start_gather(parcel.bytes, marks);
  }
  void start_gather(double bytes, std::vector<ThreadMark>& marks) {
    start({"all_gather", static_cast<std::int64_t>(bytes / 4), {}}, marks);
  }

  // Sends the rest; then the optimizer waits for the averages.
  void finish(std::vector<ThreadMark>& marks) {
    while (const auto elements = buckets_.take())
      start_bucket(*elements, marks);
    if (buckets_.counts_users()) start_small(buckets_.parameters(), marks);
    while (const auto parcel = parcels_.take()) start_parcel(*parcel, marks);
    if (!parcels_.layers().empty()) finish_factors(marks);
    if (!step_.has_device) wait(marks);
  }
  void finish_factors(std::vector<ThreadMark>& marks) {
    for (int i = buckets_.counts_users() ? 1 : 0; i < kMixedPassMessages; ++i)
      if (!buckets_.is_empty()) start_small(1, marks);
    wait(marks);
    ThreadMark products;
    products.cpu_ns = static_cast<std::int64_t>(parcels_.gradient_ns());
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
  PlannedParcels parcels_;
  PlannedBuckets buckets_;
  std::vector<int> gradients_;  // by side
  const std::uint32_t stream_;
  std::vector<std::int64_t> last_mark_;  // by side
  At backward_thread_ = 0;
  std::int64_t backward_end_ = -1;
  std::vector<std::vector<std::int32_t>> new_mark_;
};

}  // namespace

StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options) {
  std::vector<FactorLayer> layers;
  if (options.routes.has_any_factors()) layers = factor_layers(profile, step);
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

ExchangePlan routes_under(const ExchangePlan& routes, const ModelGraph& graph,
                          const std::vector<PrecisionPlan>& plans) {
  if (!routes.has_any_factors()) return routes;
  ExchangePlan result = routes;
  for (const Slot& slot : graph.slots) {
    if (slot.layer.empty() || !has_factors(routes.of(slot.layer))) continue;
    for (const PrecisionPlan& plan : plans)
      if (const Precision one = plan.of(slot.layer);
          one != Precision::kF32 && one != Precision::kTf32)
        result.layers[slot.layer] = routes.bulk();
  }
  return result;
}

void check_routes(const ExchangePlan& routes, const StepProfile& profile) {
  std::vector<std::string> known;
  for (const Slot& slot : profile.graph.slots)
    if (!slot.layer.empty()) known.push_back(slot.layer);
  check_exchange_layers(routes, known);
  const auto products = factor_layer_names(profile);
  for (const auto& [layer, route] : routes.layers)
    SHEAF_CHECK(!has_factors(route) ||
                    std::find(products.begin(), products.end(), layer) !=
                        products.end(),
                layer, " cannot be exchanged by ", to_string(route),
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
