#pragma once
// Being asked to stop, by SIGTERM, SIGINT or SIGUSR1.

namespace sheaf::train {

// While one lives, these signals do not end the program but are remembered.
// (The launcher passes SIGTERM on as SIGUSR1: MPI's launchers give a rank that
// gets SIGTERM a second at most.) Ranks that are threads may have one each.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool has_come() const;
};

// The signal that the last of them has remembered first; 0: none has come.
int last_stop_signal();

}  // namespace sheaf::train
