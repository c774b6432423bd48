#pragma once
// Waits for neighbors like other operations do: failed ranks, aborts and
// timeouts become errors, which the group records.

#include "sheaf/comm/group/peer_wait.hpp"
#include "sheaf/comm/group/perform.hpp"

namespace sheaf::halo {

class HaloWait final : public comm::PeerWait {
 public:
  HaloWait(comm::GroupCore& group, DType dtype, std::uint32_t round)
      : PeerWait(group,
                 {.operation = comm::Operation::kHalo,
                  .dtype = dtype,
                  .sequence = round},
                 std::chrono::milliseconds(0)) {}

  // The rank that is waited for, for error messages.
  void set_awaited(int rank) { awaited_ = rank; }
  void end() { note_end(); }

 protected:
  bool has_arrived(int rank) const override { return rank != awaited_; }

 private:
  int awaited_ = -1;
};

// Runs a part of an exchange. An exception marks the group as failed, since the
// neighbors no longer agree on the next message.
template <class Body>
void watch_halo(comm::GroupCore& group, DType dtype, std::uint32_t round,
                Body body) {
  group.throw_if_failed();
  try {
    HaloWait watch(group, dtype, round);
    body(watch);
    watch.end();
  } catch (...) {
    comm::note_failure(group);
    throw;
  }
}

}  // namespace sheaf::halo
