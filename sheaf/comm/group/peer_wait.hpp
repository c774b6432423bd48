#pragma once
// Waits for other ranks while checking for deaths, alarms and the timeout.

#include <chrono>
#include <string>

#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

class PeerWait {
 public:
  // Records the start of the operation. A zero timeout selects the default.
  PeerWait(GroupCore& group, const Fingerprint& fingerprint,
           std::chrono::milliseconds timeout);
  virtual ~PeerWait() = default;
  PeerWait(const PeerWait&) = delete;
  PeerWait& operator=(const PeerWait&) = delete;

  GroupCore& group() { return group_; }
  const HostMap& host_map() const { return group_.host_map(); }

  // Blocks until the counter reaches `target`.
  void wait(Counter& counter, std::atomic<std::uint32_t>& sleepers,
            std::uint32_t target);

  // For loops that poll the transport: call idle() after a round without
  // progress, and progress() otherwise. The timeout counts from the last
  // progress.
  void idle();
  void progress() { idle_rounds_ = 0, deadline_ns_ = 0; }

  // Throws if a rank of the group has died, the group has failed, or the
  // timeout has expired.
  void check();
  // To be called after a message failed: throws the cause, if it becomes known
  // within half a second, otherwise the error of the message.
  [[noreturn]] void explain(const TransportError& error);

 protected:
  // Additional work to do while waiting.
  virtual void poll() {}
  // Whether a rank has arrived at this operation.
  virtual bool has_arrived(int rank) const = 0;
  // Whether this operation waits for a rank that has exited without doing its
  // part.
  virtual bool is_owed_by(int rank) { return !has_arrived(rank); }
  // Called before an error is thrown that other ranks cannot know of. `text`
  // describes it for them and names this rank.
  virtual void report_failure(const std::string& /*text*/) {}

  // Throws CommError: the rank has exited while this rank waits for it.
  [[noreturn]] void throw_ended(int rank);

  void note_end();
  std::string who() const;  // "rank 1: barrier #3 of group 0"

  GroupCore& group_;
  const Fingerprint fingerprint_;

 private:
  void spin_or_sleep(Counter& counter, std::atomic<std::uint32_t>& sleepers,
                     std::uint32_t target);
  // Makes progress on the messages of this rank. Returns whether it should be
  // called often.
  bool help_messages();
  bool is_check_due();
  void check_alarms();
  void check_alarm(const AlarmRecord& record);
  void check_lives();
  void check_ends();
  void look_for_ends(int dead);
  void look_for_cause();
  [[noreturn]] void throw_timeout();
  [[noreturn]] void throw_death(int rank, const std::string& cause);

  const std::chrono::milliseconds timeout_;
  std::int64_t deadline_ns_ = 0;
  std::int64_t last_check_ns_ = 0;
  int idle_rounds_ = 0;
  AlarmReader alarms_;
  std::uint64_t flight_ticket_ = 0;
};

}  // namespace sheaf::comm
