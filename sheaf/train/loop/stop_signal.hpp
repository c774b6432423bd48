#pragma once
// Detects requests to stop: SIGTERM, SIGINT and SIGUSR1.

namespace sheaf::train {

// While an object exists, these signals are recorded and do not terminate the
// program. (The launcher forwards SIGTERM as SIGUSR1, because MPI launchers
// kill a rank at most a second after SIGTERM.) Ranks that are threads may have
// one each.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool has_come() const;
};

// The first signal recorded by the latest StopSignal, which may be destroyed
// already; 0 if none.
int last_stop_signal();

}  // namespace sheaf::train
