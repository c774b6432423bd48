#pragma once
// Common structure of every collective: begin, arrive, body, finish. An error
// marks the group as failed.

#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/group/observer.hpp"

namespace sheaf::comm {

// Reports the error to the launcher if it is about other ranks: dead, late or
// failed.
void note_lost_peer(const std::exception_ptr& error) noexcept;

// Marks the group as failed with the current exception and, at the first
// failure of the process, writes the last operations to a file. Must be called
// from an exception handler.
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
