#pragma once
// The frame of every collective: begin, meet, do, end; and what an error means
// to the group.

#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/group/observer.hpp"

namespace sheaf::comm {

// Reports to the launcher when an error is about other ranks: gone, late,
// broken.
void note_lost_peer(const std::exception_ptr& error) noexcept;

// Remembers the error in the group, and writes the last operations to a file.
// To be called while the exception is handled.
void note_failure(GroupCore& group);

template <class Body>
void perform(GroupCore& group, const Fingerprint& fingerprint,
             std::chrono::milliseconds timeout, const void* payload,
             std::size_t payload_bytes, Body body) {
  const Observed observed(fingerprint, group.size());
  try {
    Call call(group, fingerprint, timeout);
    try {
      call.arrive(payload, payload_bytes);
      body(call);
      call.finish();
    } catch (const TransportError& error) {
      call.explain(error);
      throw;
    }
  } catch (...) {
    note_failure(group);
    throw;
  }
}

}  // namespace sheaf::comm
