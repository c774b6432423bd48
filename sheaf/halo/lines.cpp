// The arena of a sender holds one block: a count of those who use it, then per
// line its counters and its two places. The receiver learns of the block by a
// card, sent once. Whoever leaves last gives the block back, so that nobody
// has to wait for others to end.
//
// `sent` counts rounds and is written by the sender, `taken` by the receiver.
// Place round % 2 is free for packing when round - 2 was taken. What is read
// in place lies elsewhere in the arena; its strides stand beside the counter.

#include "sheaf/halo/lines.hpp"

#include <mutex>
#include <new>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/point_to_point.hpp"
#include "sheaf/halo/pump.hpp"

namespace sheaf::halo {
namespace {

constexpr std::size_t kLine = 64;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

// Below all tags of users.
int next_tag(comm::GroupCore& core) {
  return -1 - static_cast<int>(core.next_channel() & 0x3fffffff);
}

void keep_for_ever(std::unique_ptr<std::vector<std::byte>> memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<std::vector<std::byte>>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(memory));
}

comm::ConstBuffer bytes_of(const void* data, std::size_t bytes) {
  return {data, bytes, DType::kU8};
}

}  // namespace

struct Lines::Block {
  std::atomic<std::uint32_t> users{0};
};

// What a round of a line carries.
struct Lines::Content {
  std::int64_t planes = 0;
  bool is_packed = true;
  std::uint64_t offset = 0;  // in place: in the sender's heap
  std::array<std::int64_t, 2> outer_stride{};
  std::array<std::int64_t, kMaxAxes> stride{};
};

struct Lines::State {
  alignas(kLine) comm::Counter sent;
  std::atomic<std::uint32_t> sent_sleepers{0};
  std::array<Content, 2> contents{};  // before `sent` says so
  alignas(kLine) comm::Counter taken;
  std::atomic<std::uint32_t> taken_sleepers{0};
};

struct Lines::Card {
  std::uint64_t block = 0;  // offsets in the sender's heap
  std::uint64_t state = 0;
  std::uint64_t plane_bytes = 0;
  std::int64_t capacity = 0;
};

struct Lines::Sender {
  int peer = 0;
  std::size_t plane_bytes = 0;
  State* state = nullptr;  // inside the host
  std::array<std::byte*, 2> places{};
  // Between hosts: the places.
  std::unique_ptr<std::vector<std::byte>> own{};
  std::array<comm::Work, 2> works{};
};

struct Lines::Receiver {
  int peer = 0;
  std::size_t plane_bytes = 0;
  bool is_local = false;
  State* state = nullptr;  // once connected
  Block* block = nullptr;
  std::byte* heap = nullptr;
  std::array<std::byte*, 2> places{};
  std::vector<std::byte> own{};
  std::array<comm::Work, 2> works{};
  std::unique_ptr<Card> card{};
  comm::Work card_work{};
};

Lines::Lines(const comm::Group& group, const std::vector<LineEnd>& out,
             const std::vector<LineEnd>& in, std::int64_t planes,
             std::shared_ptr<Pump> pump)
    : group_(group),
      tag_(next_tag(group.core())),
      capacity_(planes),
      pump_(std::move(pump)) {
  make_block(out);
  meet_peers(in);
}

bool Lines::is_local(int peer) const {
  return group_.core().layout().is_local(peer);
}

int Lines::world_local(int peer) const {
  comm::GroupCore& core = group_.core();
  const auto world = static_cast<std::size_t>(core.world_rank(peer));
  return core.runtime().layout().local_of[world];
}

void Lines::make_block(const std::vector<LineEnd>& out) {
  comm::HostMemory& memory = group_.core().runtime().memory();
  memory.collect_returned();
  const auto place_bytes = [&](const LineEnd& end) {
    return round_up(end.plane_bytes * static_cast<std::size_t>(capacity_));
  };
  std::size_t bytes = round_up(sizeof(Block));
  std::uint32_t users = 1;
  for (const LineEnd& end : out)
    if (is_local(end.peer)) {
      bytes += sizeof(State) + 2 * place_bytes(end);
      ++users;
    }
  std::byte* at = nullptr;
  if (users > 1) {
    at = memory.heap().allocate(bytes);
    block_ = new (at) Block;
    block_->users = users;
    at += round_up(sizeof(Block));
  }
  for (const LineEnd& end : out) {
    Sender& sender = senders_.emplace_back();
    sender.peer = end.peer;
    sender.plane_bytes = end.plane_bytes;
    if (is_local(end.peer)) {
      sender.state = new (at) State;
      at += sizeof(State);
    } else {
      sender.own =
          std::make_unique<std::vector<std::byte>>(2 * place_bytes(end));
    }
    std::byte* place = sender.state ? at : sender.own->data();
    sender.places = {place, place + place_bytes(end)};
    if (sender.state) at += 2 * place_bytes(end);
  }
}

void Lines::meet_peers(const std::vector<LineEnd>& in) {
  comm::HostMemory& memory = group_.core().runtime().memory();
  for (const Sender& sender : senders_) {
    if (!sender.state) continue;
    const Card card{memory.offset(block_), memory.offset(sender.state),
                    sender.plane_bytes, capacity_};
    // Small enough to be copied into the letter.
    isend(group_, bytes_of(&card, sizeof card), sender.peer, {.tag = tag_});
  }
  for (const LineEnd& end : in) {
    Receiver& receiver = receivers_.emplace_back();
    receiver.peer = end.peer;
    receiver.plane_bytes = end.plane_bytes;
    receiver.is_local = is_local(end.peer);
    if (receiver.is_local) {
      receiver.card = std::make_unique<Card>();
      receiver.card_work = irecv(
          group_, comm::Buffer(receiver.card.get(), sizeof(Card), DType::kU8),
          end.peer, {.tag = tag_});
    } else {
      const std::size_t bytes =
          round_up(end.plane_bytes * static_cast<std::size_t>(capacity_));
      receiver.own.resize(2 * bytes);
      receiver.places = {receiver.own.data(), receiver.own.data() + bytes};
    }
  }
}

// Whether the card has come; it is read once.
bool Lines::connect(Receiver& receiver) {
  if (receiver.state) return true;
  if (!receiver.card_work.test()) return false;
  receiver.card_work.wait();  // for its error
  const Card& card = *receiver.card;
  std::byte* heap =
      group_.core().runtime().memory().base(world_local(receiver.peer));
  receiver.heap = heap;
  receiver.block = reinterpret_cast<Block*>(heap + card.block);
  receiver.state = reinterpret_cast<State*>(heap + card.state);
  std::byte* place = heap + card.state + sizeof(State);
  receiver.places = {place,
                     place + round_up(card.plane_bytes *
                                      static_cast<std::size_t>(card.capacity))};
  if (card.plane_bytes != receiver.plane_bytes)
    throw MismatchError(concat(
        "rank ", group_.rank(), " expects halos of ", receiver.plane_bytes,
        " bytes a plane from rank ", receiver.peer, ", which sends ",
        card.plane_bytes, "; give all ranks the same layout and needs"));
  return true;
}

std::uint32_t Lines::begin(std::int64_t planes) {
  SHEAF_CHECK(open_rounds() < 2, "rank ", group_.rank(),
              ": two halo exchanges of this plan are under way already; finish "
              "the first before a third is started");
  SHEAF_ASSERT(planes <= capacity_, planes, " planes");
  ++begun_;
  is_in_place_[begun_ % 2] = false;
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

std::byte* Lines::place(HaloWatch& watch, std::uint32_t round,
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

void Lines::send_in_place(HaloWatch& watch, std::uint32_t round,
                          std::size_t line, const ConstView& part) {
  State& state = *senders_[line].state;
  watch.set_awaited(senders_[line].peer);
  watch.wait(state.taken, state.taken_sleepers, round - 2);
  state.contents[round % 2] = {
      part.planes(), /*is_packed=*/false,
      group_.core().runtime().memory().offset(part.data), part.outer_stride,
      part.stride};
  is_in_place_[round % 2] = true;
  comm::publish(state.sent, state.sent_sleepers, round);
}

void Lines::wait_read(HaloWatch& watch, std::uint32_t round) {
  if (!is_in_place_[round % 2]) return;
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

ConstView Lines::wait(HaloWatch& watch, std::uint32_t round, std::size_t line,
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
                               "; samples times channels must agree"));
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
              ": halo exchanges of one plan are finished in the order started");
  ended_ = round;
  for (Receiver& receiver : receivers_)
    if (receiver.state)
      comm::publish(receiver.state->taken, receiver.state->taken_sleepers,
                    round);
}

void Lines::leave(Block* block, int owner_local) {
  if (block->users.fetch_sub(1) != 1) return;
  comm::Runtime& runtime = group_.core().runtime();
  comm::HostMemory& memory = runtime.memory();
  auto* at = reinterpret_cast<std::byte*>(block);
  if (owner_local == runtime.layout().local)
    memory.heap().free(at);
  else
    memory.header(owner_local)
        .returned.put(
            static_cast<std::uint64_t>(at - memory.base(owner_local)));
}

// What travels is read until it has left; if it cannot leave any more, its
// memory stays.
void Lines::let_leave(Sender& sender) noexcept {
  try {
    group_.core().throw_if_failed();
    for (comm::Work& work : sender.works) work.wait();
  } catch (const std::exception& error) {
    log_debug("a halo for rank {} has not left: {}", sender.peer, error.what());
    keep_for_ever(std::move(sender.own));
  }
}

Lines::~Lines() {
  if (pump_) pump_->remove(this);
  for (Sender& sender : senders_)
    if (!sender.state) let_leave(sender);
  for (Receiver& receiver : receivers_) {
    if (!receiver.is_local) continue;
    try {
      connect(receiver);
    } catch (const std::exception&) {
      // Without a card the block stays taken until the run ends.
    }
    if (receiver.block) leave(receiver.block, world_local(receiver.peer));
  }
  if (block_) leave(block_, group_.core().runtime().layout().local);
}

}  // namespace sheaf::halo
