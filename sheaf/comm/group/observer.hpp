#pragma once
// Who wants to see the collectives of this process, as they begin and end.

#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

// Called on the thread that does the collective, `end` also when it fails.
// They must not throw.
struct Observer {
  void (*begin)(const Fingerprint& call, int ranks);
  void (*end)();
};

// For all groups, from now on; null: nobody. It must live as long as the
// process: collectives that are under way end with the one they began with.
void set_observer(const Observer* observer) noexcept;

// A collective under way.
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
