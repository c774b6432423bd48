#pragma once
// Waiting for other ranks with an eye on deaths, alarms and the clock.

#include <chrono>
#include <string>

#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

class Watch {
 public:
  // Notes the begin of the operation; a zero timeout takes the group's own.
  Watch(GroupCore& group, const Fingerprint& fingerprint,
        std::chrono::milliseconds timeout);
  virtual ~Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  GroupCore& group() { return group_; }
  const Layout& layout() const { return group_.layout(); }

  // Blocks until the counter has the value.
  void wait(Counter& counter, std::atomic<std::uint32_t>& sleepers,
            std::uint32_t target);

  // For loops that poll the transport: call idle() when a round brought
  // nothing, progress() when it did. Time counts from the last progress.
  void idle();
  void progress() { idle_rounds_ = 0, deadline_ns_ = 0; }

  // Throws when a rank of the group is dead, the group broken, or time up.
  void check();
  // After a message has failed: throws what is behind it, if that becomes
  // known within a moment.
  void look_for_cause();

 protected:
  // More to look after while waiting.
  virtual void poll() {}
  // Whether a rank has come to this operation.
  virtual bool has_arrived(int rank) const = 0;
  // Whether this operation waits for something that a rank has not done,
  // though its program has ended.
  virtual bool is_owed_by(int rank) { return !has_arrived(rank); }
  // Called before the error that a rank has ended is thrown; `text` names this
  // rank, for others.
  virtual void tell_ended(const std::string& /*text*/) {}

  // Throws CommError: the rank has ended its program and still is waited for.
  [[noreturn]] void throw_ended(int rank);

  void note_end();
  std::string who() const;  // "rank 1: barrier #3 of group 0"

  GroupCore& group_;
  const Fingerprint fingerprint_;

 private:
  void spin_or_sleep(Counter& counter, std::atomic<std::uint32_t>& sleepers,
                     std::uint32_t target);
  // Lets messages of this rank move on; whether that is wanted often.
  bool help_messages();
  bool is_check_due();
  void check_alarms();
  void check_lives();
  void check_ends();
  void look_for_ends();
  [[noreturn]] void throw_timeout();
  [[noreturn]] void throw_death(int rank);

  const std::chrono::milliseconds timeout_;
  std::int64_t deadline_ns_ = 0;
  std::int64_t last_check_ns_ = 0;
  int idle_rounds_ = 0;
  std::uint32_t alarms_seen_ = 0;
  std::uint64_t flight_ticket_ = 0;
};

}  // namespace sheaf::comm
