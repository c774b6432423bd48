#pragma once
// The start and the end of a program's communication.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::comm {

// All ranks. Ends in an orderly way when it goes out of scope: waits for the
// others, unless an error is on its way up.
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

// Joins the other ranks: under mpirun (Open MPI, MPICH) through MPI, otherwise
// as a process alone. UsageError when that would be one of several that a
// launcher has started. Options come from SHEAF_OPTIONS; `options` override
// them.
World init(int* argc = nullptr, char*** argv = nullptr);
World init(const topo::Options& options, int* argc = nullptr,
           char*** argv = nullptr);
// Over a transport that was made elsewhere.
World init(std::unique_ptr<Transport> transport, const topo::Options& options);

// Ranks as threads, for tests: runs `body` as each of `hosts.size()` ranks,
// rank r on the host named hosts[r], and rethrows the first error.
void run_threads(const std::vector<std::string>& hosts,
                 const std::function<void(const Group&)>& body,
                 const topo::Options& options = {});
void run_threads(int ranks, const std::function<void(const Group&)>& body,
                 const topo::Options& options = {});

}  // namespace sheaf::comm
