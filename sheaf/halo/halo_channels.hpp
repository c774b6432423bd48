#pragma once
// Messages between the same ranks again and again. A line leads from one rank
// to another. Inside a host its sender packs into its own arena and the
// receiver reads there, or reads what lies in the arena already where it lies;
// between hosts the message travels, packed. Each line has two places, used in
// turn, and counters in place of barriers: a sender that packs waits only for
// a receiver that is two rounds behind.

#include <atomic>
#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/work.hpp"
#include "sheaf/halo/halo_watch.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

class Pump;

struct LineEnd {
  int peer = 0;
  std::size_t plane_bytes = 0;  // of a message, for each plane
};

class Lines {
 public:
  // All ranks of the group make theirs in the same order, with ends that
  // agree. `planes` is the most that a round will carry. The pump, if any, is
  // given what travels between hosts.
  Lines(const comm::Group& group, const std::vector<LineEnd>& out,
        const std::vector<LineEnd>& in, std::int64_t planes,
        std::shared_ptr<Pump> pump = nullptr);
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::int64_t capacity() const { return capacity_; }
  int open_rounds() const { return static_cast<int>(begun_ - ended_); }

  // The next round, for so many planes. At most two are open, and they end in
  // the order begun.
  std::uint32_t begin(std::int64_t planes);
  // Whether receivers of this host can read the memory of a view.
  bool is_shared(const ConstView& view, std::size_t element_bytes) const;
  bool is_inside_host(std::size_t line) const;

  // Where the message of a line is to be packed; then send() it.
  std::byte* place(HaloWatch& watch, std::uint32_t round, std::size_t line);
  void send(std::uint32_t round, std::size_t line, std::int64_t planes);
  // Instead, inside a host: lets the receiver read a part of shared memory,
  // which stays unchanged until wait_read().
  void send_in_place(HaloWatch& watch, std::uint32_t round, std::size_t line,
                     const ConstView& part);

  // After the sends of a round: lets them move on by themselves.
  void pump(std::uint32_t round);

  // Whether a message is here; lets messages move on.
  bool is_here(std::uint32_t round, std::size_t line);
  // The message, planes of a box, once it is here. It may be read until the
  // round ends.
  ConstView wait(HaloWatch& watch, std::uint32_t round, std::size_t line,
                 std::array<std::int64_t, 2> outer, const Box& box);
  void end(std::uint32_t round);
  // After end(): whether others of this host have read what was sent, or
  // returns when they have.
  bool is_read(std::uint32_t round) const;
  void wait_read(HaloWatch& watch, std::uint32_t round);

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
