#pragma once
// Start and end of a program's communication.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::comm {

class Transport;

// The group of all ranks, and the owner of the process's connections. The
// destructor shuts down the communication cleanly: it waits for the other
// ranks, unless an exception is propagating or an operation has failed. It logs
// errors and does not throw. exit(0) does the same for worlds that still exist.
// Groups, their memory and wrapped modules may outlive the World, but must not
// communicate afterwards. const functions may be called from any thread.
class World {
 public:
  explicit World(Group group);
  ~World();
  World(World&&) = default;
  World& operator=(World&&) = delete;

  const Group& group() const { return group_; }
  operator const Group&() const { return group_; }  // NOLINT: on purpose
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

 private:
  Group group_;
};

// Joins the other ranks: through MPI under mpirun (Open MPI, MPICH), otherwise
// as a single process. Every rank must call it, on one thread. Throws
// UsageError if this process would be a single one although a launcher has
// started several. The first overload reads its options from SHEAF_OPTIONS; the
// second uses `options` instead. From then on, an exception that the program
// does not catch is reported in one line, with the exit code of
// docs/reference/errors.md.
World init(int* argc = nullptr, char*** argv = nullptr);
World init(const topo::Options& options, int* argc = nullptr,
           char*** argv = nullptr);
// Same, over an existing transport.
World init(std::unique_ptr<Transport> transport, const topo::Options& options);

// Runs ranks as threads, for tests: calls `body` on each of `hosts.size()`
// ranks, rank r on the host named hosts[r], and rethrows the first error.
void run_threads(const std::vector<std::string>& hosts,
                 const std::function<void(const Group&)>& body,
                 const topo::Options& options = {});
void run_threads(int ranks, const std::function<void(const Group&)>& body,
                 const topo::Options& options = {});

}  // namespace sheaf::comm
