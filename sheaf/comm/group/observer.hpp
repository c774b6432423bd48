#pragma once
// Callbacks at the begin and end of every collective of this process.

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

}  // namespace sheaf::comm
