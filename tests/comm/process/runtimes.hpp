#pragma once
// Runtimes of ranks as threads, without groups.

#include <barrier>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "sheaf/comm/process/runtime.hpp"

namespace sheaf::test {

// Calls `body` on each rank; rank r is on the host named hosts[r]. Rethrows the
// error of the first rank that has one. No body begins before all runtimes
// exist, and no runtime ends before all bodies have: a rank that is being
// constructed needs the memory and the connections of the others. A runtime
// that cannot be constructed must be the only one.
inline void run_runtimes(const std::vector<std::string>& hosts,
                         const std::function<void(comm::Runtime&)>& body,
                         const topo::Options& options = {}) {
  auto transports =
      comm::make_thread_transports(static_cast<int>(hosts.size()));
  std::barrier everybody(static_cast<std::ptrdiff_t>(hosts.size()));
  std::vector<std::future<void>> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      comm::Runtime runtime(
          std::move(transports[rank]),
          comm::RuntimeOptions{.options = options,
                               .host = hosts[rank],
                               .arena_bytes = std::size_t{1} << 30});
      everybody.arrive_and_wait();
      std::exception_ptr error;
      try {
        body(runtime);
      } catch (...) {
        error = std::current_exception();
      }
      everybody.arrive_and_wait();
      runtime.finalize();
      if (error) std::rethrow_exception(error);
    }));
  for (auto& rank : ranks) rank.wait();
  for (auto& rank : ranks) rank.get();
}

}  // namespace sheaf::test
