#include <algorithm>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/progress.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/bench/bench_data.hpp"
#include "sheaf/cli/bench/bench_rows.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/cli/bench/bench_shape.hpp"
#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::cli {
namespace {

using Libraries = std::vector<std::unique_ptr<comm::RivalLibrary>>;

class Sweep {
 public:
  Sweep(const comm::Group& group, const BenchJob& job)
      : group_(group), job_(job) {
    options_.op = job.plan.op;
    options_.root = job.args.root;
    options_.algorithm = job.plan.algorithm;
    for (const std::string& name : job.plan.versus)
      libraries_.push_back(join_rival(group, name, job.args.interface));
    for (const std::uint64_t size : job.plan.sizes)
      shapes_.push_back(shape_of(size));
    allocate();
  }

  void run(RowPrinter* printer, RankProgress& progress) {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      progress.update(
          static_cast<double>(i) / static_cast<double>(shapes_.size()),
          format_bytes(shapes_[i].size_bytes));
      const BenchRow row = measure(shapes_[i]);
      progress.clear();
      if (printer) printer->print(row);
      has_wrong_ = has_wrong_ || row.wrong.value_or(0) > 0;
    }
  }

  bool has_wrong() const { return has_wrong_; }

 private:
  Shape shape_of(std::uint64_t bytes) const {
    return make_shape({.operation = job_.plan.operation,
                       .dtype = job_.plan.dtype,
                       .op = job_.plan.op,
                       .root = job_.args.root,
                       .in_place = job_.args.in_place,
                       .bytes = bytes,
                       .rank = group_.rank(),
                       .ranks = group_.size()});
  }

  std::size_t slot_count(const Shape& shape) const {
    return slots_for(shape, group_.local_size(), job_.args.rotate);
  }

  // Allocates once for all sizes; rivals always use plain memory.
  void allocate() {
    std::size_t bytes = 0;
    for (const Shape& shape : shapes_)
      bytes = std::max(bytes, slot_count(shape) * Slots::stride(shape));
    const DType dtype = job_.plan.dtype;
    ours_.emplace(group_, dtype, job_.plan.in_arena, bytes);
    if (libraries_.empty()) return;
    theirs_ = ours_;
    if (job_.plan.in_arena)
      theirs_.emplace(group_, dtype, /*in_arena=*/false, bytes);
  }

  BenchRow measure(const Shape& shape) {
    const std::size_t slots = common_slots(shape);
    std::vector<Contestant> contestants{our_contestant(shape, slots)};
    for (const auto& library : libraries_)
      contestants.push_back(rival(*library, shape, slots));
    const auto timings =
        race(group_, contestants,
             {.blocks = job_.args.blocks, .iterations = job_.args.iterations});
    BenchRow row{.shape = shape,
                 .slots = slots,
                 .algorithm = algorithm_name(),
                 .timing = timings[0],
                 .wrong = check_ours(shape),
                 .bound_us = bound_us(shape.call.operation, job_.plan.machine,
                                      placement_of(group_),
                                      static_cast<double>(shape.size_bytes)),
                 .rivals = {}};
    for (std::size_t i = 0; i < libraries_.size(); ++i)
      row.rivals.push_back({libraries_[i]->name(), timings[i + 1],
                            check_theirs(*libraries_[i], shape)});
    return row;
  }

  std::string algorithm_name() const {
    const bool is_forced = options_.algorithm != comm::Algorithm::kAuto;
    const auto& setting = job_.plan.options.algorithm;
    if (setting && !is_forced) return *setting;
    return std::string(topo::name_of(options_.algorithm));
  }

  // In a rooted operation the slots of ranks differ in size; all ranks use the
  // smallest number of slots.
  std::size_t common_slots(const Shape& shape) {
    const auto mine = static_cast<double>(slot_count(shape));
    return static_cast<std::size_t>(-largest(group_, {-mine})[0]);
  }

  Contestant our_contestant(const Shape& shape, std::size_t slots) {
    const auto warmup = static_cast<std::size_t>(job_.args.warmup);
    return {.run =
                [this, shape, slots](std::size_t iteration) {
                  run_ours(group_, shape, ours_->at(shape, iteration % slots),
                           options_);
                },
            // A rank maps the pages of the others' slots at the first read,
            // which is not part of the operation.
            .warmup = job_.plan.in_arena ? std::max(warmup, slots) : warmup};
  }

  Contestant rival(comm::RivalLibrary& library, const Shape& shape,
                   std::size_t slots) {
    return {.run =
                [this, shape, slots,
                 call = library.prepare(shape.call)](std::size_t iteration) {
                  std::byte* slot = theirs_->at(shape, iteration % slots);
                  call(shape.input(slot), shape.output(slot));
                },
            .warmup = static_cast<std::size_t>(job_.args.warmup)};
  }

  std::optional<std::int64_t> check_ours(const Shape& shape) {
    if (!job_.args.check) return std::nullopt;
    std::byte* slot = ours_->at(shape, 0);
    prepare_slot(shape, slot);
    run_ours(group_, shape, slot, options_);
    return total(group_, static_cast<std::int64_t>(
                             count_wrong(shape, shape.output(slot))));
  }

  std::optional<std::int64_t> check_theirs(comm::RivalLibrary& library,
                                           const Shape& shape) {
    if (!job_.args.check) return std::nullopt;
    std::byte* slot = theirs_->at(shape, 0);
    prepare_slot(shape, slot);
    const std::byte* input = shape.input(slot);
    library.prepare(shape.call)(input, shape.output(slot));
    const void* result =
        library.result_of(shape.call, input, shape.output(slot));
    return total(group_, static_cast<std::int64_t>(count_wrong(shape, result)));
  }

  const comm::Group& group_;
  const BenchJob& job_;
  comm::CollectiveOptions options_;
  Libraries libraries_;
  std::vector<Shape> shapes_;
  std::optional<Slots> ours_;
  std::optional<Slots> theirs_;
  bool has_wrong_ = false;
};

}  // namespace

topo::Placement placement_of(const comm::Group& group) {
  return {.ranks = group.size(),
          .hosts = group.host_count(),
          .ranks_per_host = group.core().host_map().widest_host(),
          .dims = std::nullopt};
}

Ending run_sweep(const comm::Group& group, const BenchJob& job) {
  const bool is_first = group.rank() == 0;
  RankProgress progress(is_first ? job.args.progress : "");
  Sweep sweep(group, job);
  std::optional<RowPrinter> printer;
  if (is_first)
    printer.emplace(RowContext{.plan = job.plan,
                               .ranks = group.size(),
                               .hosts = group.host_count(),
                               .record = job.args.record,
                               .command_line = job.args.command_line});
  sweep.run(printer ? &*printer : nullptr, progress);
  if (!is_first || !sweep.has_wrong()) return {};
  return [] {
    throw InternalError(
        "results were wrong, see the column #wrong (this is a bug in sheaf, "
        "please report it)");
  };
}

}  // namespace sheaf::cli
