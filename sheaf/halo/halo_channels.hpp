#pragma once
// Persistent channels for repeated messages between the same ranks. A line is a
// channel from one rank to another. Within a host the receiver reads from the
// sender's arena: either a packed message, or in place if the data is in the
// arena already. Between hosts, packed messages are sent. Each line has two
// message buffers ("places"), used alternately, and counters instead of
// barriers: a sender that packs waits only for a receiver that is two rounds
// behind.

#include <atomic>
#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/work.hpp"
#include "sheaf/halo/halo_wait.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

class Pump;

struct LineEnd {
  int peer = 0;
  std::size_t plane_bytes = 0;  // message bytes per plane
};

class Lines {
 public:
  // All ranks of the group construct their Lines in the same order, with
  // matching ends. `planes` is the maximum per round. The pump, if any,
  // advances the messages between hosts.
  Lines(const comm::Group& group, const std::vector<LineEnd>& out,
        const std::vector<LineEnd>& in, std::int64_t planes,
        std::shared_ptr<Pump> pump = nullptr);
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::int64_t capacity() const { return capacity_; }
  int open_rounds() const { return static_cast<int>(begun_ - ended_); }

  // Begins the next round, with `planes` planes, and returns its number. At
  // most two rounds are open; they must end in the order begun. Throws
  // UsageError for a third one.
  std::uint32_t begin(std::int64_t planes);
  // Whether receivers on this host can read the memory of a view.
  bool is_shared(const ConstView& view, std::size_t element_bytes) const;
  bool is_inside_host(std::size_t line) const;

  // Returns the buffer to pack the message of a line into, once it is free;
  // call send() afterwards.
  std::byte* place(HaloWait& watch, std::uint32_t round, std::size_t line);
  void send(std::uint32_t round, std::size_t line, std::int64_t planes);
  // The alternative within a host: the receiver reads a part of shared memory,
  // which must not change until wait_read() returns.
  void send_in_place(HaloWait& watch, std::uint32_t round, std::size_t line,
                     const ConstView& part);

  // After the sends of a round: passes the messages between hosts to the pump.
  void pump(std::uint32_t round);

  // Whether a message has arrived; advances messages between hosts.
  bool is_here(std::uint32_t round, std::size_t line);
  // Waits for a message and returns a view of it: the planes of a box. The view
  // is valid until the round ends. Throws MismatchError if the sender uses a
  // different number of planes.
  ConstView wait(HaloWait& watch, std::uint32_t round, std::size_t line,
                 std::array<std::int64_t, 2> outer, const Box& box);
  void end(std::uint32_t round);
  // After end(): tests or waits until the receivers on this host have read the
  // messages.
  bool is_read(std::uint32_t round) const;
  void wait_read(HaloWait& watch, std::uint32_t round);

 private:
  struct Block;
  struct Content;
  struct State;
  struct Card;
  struct Sender;
  struct Receiver;

  void make_block(const std::vector<LineEnd>& out);
  void meet_peers(const std::vector<LineEnd>& in);
  bool is_local(int peer) const;
  int world_local(int peer) const;
  bool connect(Receiver& receiver);
  void leave(Block* block, int owner_local);
  void let_leave(Sender& sender) noexcept;

  comm::Group group_;
  const int tag_;
  const std::int64_t capacity_;
  const std::shared_ptr<Pump> pump_;
  std::uint32_t begun_ = 0;
  std::uint32_t ended_ = 0;
  Block* block_ = nullptr;  // in this rank's arena
  std::vector<Sender> senders_;
  std::vector<Receiver> receivers_;
};

}  // namespace sheaf::halo
