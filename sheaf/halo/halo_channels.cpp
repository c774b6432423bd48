// The arena of a sender holds one block: a reference count, then for each line
// its counters and its two places. A "card", a message sent once, contains the
// address of the block. The last user frees the block, so no rank has to wait
// for others in the destructor.
//
// `sent` counts rounds and is written by the sender, `taken` by the receiver.
// Place round % 2 is free for packing when round - 2 was taken. Data read in
// place is elsewhere in the arena; its strides are stored next to the counter.

#include "sheaf/halo/halo_channels.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/halo/halo_channels_parts.hpp"
#include "sheaf/halo/pump.hpp"

namespace sheaf::halo {

std::uint32_t Lines::begin(std::int64_t planes) {
  SHEAF_CHECK(open_rounds() < 2, "rank ", group_.rank(),
              ": two halo exchanges of this plan are in progress; finish the "
              "first one before starting a third");
  SHEAF_ASSERT(planes <= capacity_, planes, " planes");
  ++begun_;
  for (Receiver& receiver : receivers_)
    if (!receiver.is_local)
      receiver.works[begun_ % 2] = irecv(
          group_,
          comm::Buffer(receiver.places[begun_ % 2],
                       receiver.plane_bytes * static_cast<std::size_t>(planes),
                       DType::kU8),
          receiver.peer, {.tag = tag_});
  return begun_;
}

std::byte* Lines::place(HaloWait& watch, std::uint32_t round,
                        std::size_t line) {
  Sender& sender = senders_[line];
  watch.set_awaited(sender.peer);
  if (sender.state)
    watch.wait(sender.state->taken, sender.state->taken_sleepers, round - 2);
  else
    sender.works[round % 2].wait();
  return sender.places[round % 2];
}

void Lines::send(std::uint32_t round, std::size_t line, std::int64_t planes) {
  Sender& sender = senders_[line];
  if (sender.state) {
    sender.state->contents[round % 2] = {.planes = planes};
    comm::publish(sender.state->sent, sender.state->sent_sleepers, round);
    return;
  }
  const auto bytes = sender.plane_bytes * static_cast<std::size_t>(planes);
  sender.works[round % 2] =
      isend(group_, bytes_of(sender.places[round % 2], bytes), sender.peer,
            {.tag = tag_});
}

void Lines::pump(std::uint32_t round) {
  if (!pump_) return;
  std::vector<comm::Work> works;
  for (const Sender& sender : senders_)
    if (!sender.state) works.push_back(sender.works[round % 2]);
  for (const Receiver& receiver : receivers_)
    if (!receiver.is_local) works.push_back(receiver.works[round % 2]);
  pump_->add(this, works);
}

bool Lines::is_inside_host(std::size_t line) const {
  return senders_[line].state != nullptr;
}

bool Lines::is_shared(const ConstView& view, std::size_t element_bytes) const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 2; ++i)
    last += (view.outer[i] - 1) * view.outer_stride[i];
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
    last += (view.size[axis] - 1) * view.stride[axis];
  return last >= 0 &&
         group_.core().runtime().memory().is_mine(
             view.data, static_cast<std::size_t>(last + 1) * element_bytes);
}

void Lines::send_in_place(HaloWait& watch, std::uint32_t round,
                          std::size_t line, const ConstView& part) {
  State& state = *senders_[line].state;
  watch.set_awaited(senders_[line].peer);
  watch.wait(state.taken, state.taken_sleepers, round - 2);
  state.contents[round % 2] = {
      part.planes(), /*is_packed=*/false,
      group_.core().runtime().memory().offset(part.data), part.outer_stride,
      part.stride};
  comm::publish(state.sent, state.sent_sleepers, round);
}

bool Lines::is_read(std::uint32_t round) const {
  for (const Sender& sender : senders_)
    if (sender.state && !sender.state->taken.has_reached(round)) return false;
  return true;
}

void Lines::wait_read(HaloWait& watch, std::uint32_t round) {
  for (Sender& sender : senders_) {
    if (!sender.state) continue;
    watch.set_awaited(sender.peer);
    watch.wait(sender.state->taken, sender.state->taken_sleepers, round);
  }
}

bool Lines::is_here(std::uint32_t round, std::size_t line) {
  Receiver& receiver = receivers_[line];
  if (!receiver.is_local) return receiver.works[round % 2].test();
  return connect(receiver) && receiver.state->sent.has_reached(round);
}

ConstView Lines::wait(HaloWait& watch, std::uint32_t round, std::size_t line,
                      std::array<std::int64_t, 2> outer, const Box& box) {
  Receiver& receiver = receivers_[line];
  watch.set_awaited(receiver.peer);
  ConstView view = contiguous_view<const std::byte>(nullptr, outer, box);
  if (!receiver.is_local) {
    receiver.works[round % 2].wait();
    view.data = receiver.places[round % 2];
    return view;
  }
  if (!receiver.state) {
    receiver.card_work.wait();
    connect(receiver);
  }
  State& state = *receiver.state;
  watch.wait(state.sent, state.sent_sleepers, round);
  const Content& content = state.contents[round % 2];
  if (content.planes != view.planes())
    throw MismatchError(concat("rank ", group_.rank(), " exchanges halos of ",
                               view.planes(), " planes, rank ", receiver.peer,
                               " of ", content.planes,
                               "; samples times channels must be equal"));
  view.data = receiver.places[round % 2];
  if (!content.is_packed) {
    view.data = receiver.heap + content.offset;
    view.outer_stride = content.outer_stride;
    view.stride = content.stride;
  }
  return view;
}

void Lines::end(std::uint32_t round) {
  SHEAF_CHECK(round == ended_ + 1, "rank ", group_.rank(),
              ": halo exchanges of a plan must be finished in the order "
              "started");
  ended_ = round;
  for (Receiver& receiver : receivers_)
    if (receiver.state)
      comm::publish(receiver.state->taken, receiver.state->taken_sleepers,
                    round);
}

}  // namespace sheaf::halo
