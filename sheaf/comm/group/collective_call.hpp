#pragma once
// One collective in progress on this rank. It publishes its fingerprint, waits
// for the other ranks of the host, and compares the fingerprints.

#include "sheaf/comm/group/peer_wait.hpp"

namespace sheaf::comm {

class CollectiveCall : public PeerWait {
 public:
  // Takes the group's next sequence number. Throws if the group has failed.
  CollectiveCall(GroupCore& group, const Fingerprint& fingerprint,
                 std::chrono::milliseconds timeout);
  ~CollectiveCall() override;

  LocalGroup& local() { return group_.local(); }
  std::uint32_t sequence() const { return fingerprint_.sequence; }
  bool is_end() const { return is_end_of_program(fingerprint_); }

  // Waits until the group's ranks on this host have arrived, and passes `bytes`
  // bytes of `data` to each of them. Throws MismatchError if one of them is in
  // a different call. Between hosts, the comparison continues in the background
  // until finish().
  void arrive(const void* data, std::size_t bytes);
  const std::byte* payload(int member, std::size_t bytes) {
    return local().payload(member, sequence(), bytes);
  }
  // The heap of a member of this host, for SharedBuffers.
  std::byte* heap_of(int member);
  // Time that this rank waited in arrive(); shortest on the last rank to
  // arrive. Measured only with -dump_iter.
  std::int64_t waited_ns() const { return waited_ns_; }

  // Same as wait(), for every other member on this host: `pick` selects the
  // counter.
  template <class Pick>
  void wait_all(Pick pick, std::uint32_t target) {
    for (int i = 0; i < local().size(); ++i)
      if (i != local().me())
        wait(pick(local().progress(i)), local().progress(i).sleepers, target);
  }

  // Throws MismatchError, here and on all ranks of the group.
  [[noreturn]] void disagree(const std::string& text);

  // Completes the call: returns once the other hosts are known to be in the
  // same call.
  void finish();

 protected:
  void poll() override { poll_guard(); }
  bool has_arrived(int rank) const override;
  bool is_owed_by(int rank) override;
  void report_failure(const std::string& text) override {
    report(AlarmKind::kGroupFailed, text);
  }

 private:
  void compare_with(int rank, const Fingerprint& theirs);
  [[noreturn]] void wait_for_failure();
  void report(AlarmKind kind, const std::string& text);
  void start_guard();
  bool poll_guard();

  std::int64_t waited_ns_ = 0;
  // Fingerprint comparison between hosts, in a ring of the hosts' first ranks.
  Request guard_send_;
  Request guard_receive_;
  Fingerprint guard_theirs_{};
};

}  // namespace sheaf::comm
