#pragma once
// Common structure of every collective: begin, arrive, body, finish. An error
// marks the group as failed. Callbacks observe the begin and the end.

#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

// Called on the thread that performs the collective; `end` is called also if it
// fails. The functions must not throw.
struct Observer {
  void (*begin)(const Fingerprint& call, int ranks);
  void (*end)();
};

// Sets the observer of all groups; null removes it. The observer must live as
// long as the process: a collective in progress calls `end` of the observer
// that it began with. Any thread may call it.
void set_observer(const Observer* observer) noexcept;

// Calls the observer for one collective, for the lifetime of this object.
class Observed {
 public:
  Observed(const Fingerprint& call, int ranks);
  ~Observed() {
    if (observer_) observer_->end();
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  const Observer* observer_;
};

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
    CollectiveCall call(group, fingerprint, timeout);
    try {
      call.arrive(payload, payload_bytes);
      body(call);
      call.finish();
    } catch (const TransportError& error) {
      call.explain(error);
    }
  } catch (...) {
    note_failure(group);
    throw;
  }
}

}  // namespace sheaf::comm
