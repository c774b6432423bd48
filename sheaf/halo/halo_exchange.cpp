// A message contains the packed planes of a box: in the forward exchange a part
// of the sender's tile, in the adjoint a part of the gradient of its wanted
// box. Thus the adjoint uses the lines of the forward exchange in the reverse
// direction.

#include "sheaf/halo/halo_exchange.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/halo/halo_channels.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {
namespace {

std::vector<LineEnd> ends_of(const std::vector<HaloMessage>& messages,
                             std::size_t element_bytes) {
  std::vector<LineEnd> ends;
  for (const HaloMessage& message : messages)
    ends.push_back(
        {message.peer,
         static_cast<std::size_t>(message.box.volume()) * element_bytes});
  return ends;
}

void check_outer(const ConstView& view, const ConstView& started) {
  SHEAF_CHECK(view.outer == started.outer, "a halo exchange was started with ",
              started.outer[0], "x", started.outer[1],
              " planes and cannot be finished with ", view.outer[0], "x",
              view.outer[1]);
}

}  // namespace

HaloExchange::HaloExchange(const comm::Group& group, HaloPlan plan, DType dtype,
                           std::shared_ptr<Pump> pump)
    : group_(group),
      plan_(std::move(plan)),
      dtype_(dtype),
      element_bytes_(size_of(dtype)),
      pump_(std::move(pump)) {
  SHEAF_CHECK(plan_.rank == group.rank(), "rank ", group.rank(),
              " was given the halo plan of rank ", plan_.rank);
}

void HaloExchange::check_view(const ConstView& view, const Box& box,
                              const char* what) const {
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
    SHEAF_CHECK(view.size[axis] == box.axes[axis].size(), "rank ", plan_.rank,
                ": the view of the ", what, " has ", view.size[axis],
                " positions on axis ", axis, ", but the plan has ",
                box.axes[axis].size());
}

// Lines are created at first use and again when they are too small. That
// happens on all ranks at once, since all use the same number of planes.
HaloExchange::Handle HaloExchange::begin(std::shared_ptr<Lines>& lines,
                                         bool is_adjoint,
                                         const ConstView& view) {
  group_.core().throw_if_failed();
  if (!lines || lines->capacity() < view.planes()) {
    auto out = ends_of(plan_.sends, element_bytes_);
    auto in = ends_of(plan_.receives, element_bytes_);
    if (is_adjoint) std::swap(out, in);
    lines = std::make_shared<Lines>(group_, out, in, view.planes(), pump_);
  }
  Handle handle;
  handle.lines_ = lines;
  handle.is_adjoint_ = is_adjoint;
  handle.view_ = view;
  handle.round_ = lines->begin(view.planes());
  return handle;
}

void HaloExchange::post(Handle& handle, const Box& whole,
                        const std::vector<HaloMessage>& out) {
  const ConstView& view = handle.view_;
  Lines& lines = *handle.lines_;
  const bool is_shared = lines.is_shared(view, element_bytes_);
  watch_halo(group_.core(), dtype_, handle.round_, [&](HaloWait& watch) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Box& box = out[i].box;
      const ConstView part = part_of(view, whole, box, element_bytes_);
      if (is_shared && lines.is_inside_host(i)) {
        lines.send_in_place(watch, handle.round_, i, part);
      } else {
        std::byte* place = lines.place(watch, handle.round_, i);
        copy_view(part, contiguous_view(place, view.outer, box),
                  element_bytes_);
        lines.send(handle.round_, i, view.planes());
      }
      const std::int64_t bytes = view.planes() * box.volume() *
                                 static_cast<std::int64_t>(element_bytes_);
      if (is_shared && lines.is_inside_host(i)) handle.bytes_in_place_ += bytes;
      ++counters_.messages;
      counters_.bytes_sent += bytes;
    }
  });
  counters_.bytes_in_place += handle.bytes_in_place_;
  lines.pump(handle.round_);
}

// Processes messages in rank order. In the forward exchange, where the order
// does not matter, messages that have arrived could be processed first; but a
// copy is short compared to a wait.
template <class Consume>
void HaloExchange::collect(const Handle& handle,
                           const std::vector<HaloMessage>& in,
                           Consume consume) {
  Lines& lines = *handle.lines_;
  const ConstView& sent = handle.view_;
  watch_halo(group_.core(), dtype_, handle.round_, [&](HaloWait& watch) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Box& box = in[i].box;
      const bool is_here = lines.is_here(handle.round_, i);
      const std::int64_t since = is_here ? 0 : now_ns();
      const ConstView message =
          lines.wait(watch, handle.round_, i, sent.outer, box);
      if (!is_here) counters_.wait_ns += now_ns() - since;
      consume(box, message);
      counters_.bytes_read += sent.planes() * box.volume() *
                              static_cast<std::int64_t>(element_bytes_);
    }
    lines.end(handle.round_);
    if (handle.bytes_in_place_ > 0 && handle.reads_ == Reads::kAwaited)
      lines.wait_read(watch, handle.round_);
  });
  ++counters_.exchanges;
}

bool HaloExchange::Handle::is_read() const {
  return bytes_in_place_ == 0 || lines_->is_read(round_);
}

void HaloExchange::wait_read(const Handle& handle) {
  if (handle.is_read()) return;
  watch_halo(group_.core(), dtype_, handle.round_, [&](HaloWait& watch) {
    handle.lines_->wait_read(watch, handle.round_);
  });
}

HaloExchange::Handle HaloExchange::start(const ConstView& tile, Reads reads) {
  check_view(tile, plan_.tile, "tile");
  Handle handle = begin(forward_, /*is_adjoint=*/false, tile);
  handle.reads_ = reads;
  post(handle, plan_.tile, plan_.sends);
  return handle;
}

void HaloExchange::finish(Handle handle, const View& wanted, Part part) {
  check_view(wanted, plan_.wanted, "wanted box");
  const Patch patch{plan_.wanted, wanted};
  finish(std::move(handle), std::span(&patch, 1), part);
}

void HaloExchange::finish(Handle handle, std::span<const Patch> patches,
                          Part part) {
  SHEAF_CHECK(handle.lines_ && !handle.is_adjoint_,
              "finish() needs a handle from start()");
  const ConstView& tile = handle.view_;
  for (const Patch& patch : patches) {
    SHEAF_CHECK(plan_.wanted.contains(patch.box), "rank ", plan_.rank,
                ": the patch ", patch.box, " is not in the wanted box ",
                plan_.wanted);
    check_view(patch.view, patch.box, "patch");
    check_outer(patch.view, tile);
    const Box own = intersect(plan_.local, patch.box);
    if (part == Part::kAll && !own.is_empty())
      copy_view(part_of(tile, plan_.tile, own, element_bytes_),
                part_of(patch.view, patch.box, own, element_bytes_),
                element_bytes_);
  }
  collect(handle, plan_.receives,
          [&](const Box& box, const ConstView& message) {
            place(box, message, patches);
          });
}

void HaloExchange::place(const Box& box, const ConstView& message,
                         std::span<const Patch> patches) {
  for (const Patch& patch : patches) {
    const Box both = intersect(box, patch.box);
    if (both.is_empty()) continue;
    copy_view(part_of(message, box, both, element_bytes_),
              part_of(patch.view, patch.box, both, element_bytes_),
              element_bytes_);
  }
}

HaloExchange::Handle HaloExchange::start_adjoint(const ConstView& wanted,
                                                 Reads reads) {
  check_view(wanted, plan_.wanted, "wanted box");
  SHEAF_CHECK(is_float(dtype_), "halos of ", name_of(dtype_),
              " cannot be added; gradients are f64, f32, f16 or bf16");
  Handle handle = begin(adjoint_, /*is_adjoint=*/true, wanted);
  handle.reads_ = reads;
  post(handle, plan_.wanted, plan_.receives);
  return handle;
}

void HaloExchange::finish_adjoint(Handle handle, const View& tile, Part part) {
  SHEAF_CHECK(handle.lines_ && handle.is_adjoint_,
              "finish_adjoint() needs a handle from start_adjoint()");
  check_view(tile, plan_.tile, "tile");
  check_outer(tile, handle.view_);
  if (part == Part::kAll) start_sum(handle, tile);
  collect(handle, plan_.sends, [&](const Box& box, const ConstView& message) {
    add_view(message, part_of(tile, plan_.tile, box, element_bytes_), dtype_);
  });
}

void HaloExchange::start_sum(const Handle& handle, const View& tile) {
  for (const Box& box : boxes_around(plan_.tile, plan_.local))
    zero_view(part_of(tile, plan_.tile, box, element_bytes_), element_bytes_);
  if (plan_.local.is_empty()) return;
  copy_view(part_of(handle.view_, plan_.wanted, plan_.local, element_bytes_),
            part_of(tile, plan_.tile, plan_.local, element_bytes_),
            element_bytes_);
}

bool HaloExchange::poll(const Handle& handle) {
  const auto& in = handle.is_adjoint_ ? plan_.sends : plan_.receives;
  bool is_here = true;
  for (std::size_t i = 0; i < in.size(); ++i)
    is_here = handle.lines_->is_here(handle.round_, i) && is_here;
  return is_here;
}

}  // namespace sheaf::halo
