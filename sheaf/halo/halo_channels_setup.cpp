// Setup and teardown of Lines.

#include <mutex>
#include <new>
#include <tuple>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/halo/halo_channels_parts.hpp"
#include "sheaf/halo/pump.hpp"

namespace sheaf::halo {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

// A negative tag, which user messages do not have.
int next_tag(comm::GroupCore& core) {
  return -1 - static_cast<int>(core.next_channel() & 0x3fffffff);
}

void keep_for_ever(std::unique_ptr<std::vector<std::byte>> memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<std::vector<std::byte>>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(memory));
}

}  // namespace

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
  return group_.core().host_map().is_local(peer);
}

int Lines::world_local(int peer) const {
  comm::GroupCore& core = group_.core();
  const auto world = static_cast<std::size_t>(core.world_rank(peer));
  return core.runtime().host_map().local_of[world];
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
    // Small enough that isend() copies it, so `card` need not stay alive.
    std::ignore =
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

// Whether the card has arrived; it is read once.
bool Lines::connect(Receiver& receiver) {
  if (receiver.state) return true;
  if (!receiver.card_work.test()) return false;
  receiver.card_work.wait();  // rethrows its error
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
    throw MismatchError(
        concat("rank ", group_.rank(), " expects halos of ",
               receiver.plane_bytes, " bytes per plane from rank ",
               receiver.peer, ", which sends ", card.plane_bytes,
               "; all ranks must use the same tiling and required boxes"));
  return true;
}

void Lines::leave(Block* block, int owner_local) {
  if (block->users.fetch_sub(1) != 1) return;
  comm::Runtime& runtime = group_.core().runtime();
  comm::HostMemory& memory = runtime.memory();
  auto* at = reinterpret_cast<std::byte*>(block);
  if (owner_local == runtime.host_map().local)
    memory.heap().free(at);
  else
    memory.header(owner_local)
        .returned.put(
            static_cast<std::uint64_t>(at - memory.base(owner_local)));
}

// Waits until the sender's messages have been sent. If that is no longer
// possible, their memory is leaked, since it may still be read.
void Lines::let_leave(Sender& sender) noexcept {
  try {
    group_.core().throw_if_failed();
    for (comm::Work& work : sender.works) work.wait();
  } catch (const std::exception& error) {
    log_debug("a halo for rank {} was not sent: {}", sender.peer, error.what());
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
      // Without a card the block stays allocated until the end of the run.
    }
    if (receiver.block) leave(receiver.block, world_local(receiver.peer));
  }
  if (block_) leave(block_, group_.core().runtime().host_map().local);
}

}  // namespace sheaf::halo
