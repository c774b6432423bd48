#include "sheaf/comm/world.hpp"

#include <exception>
#include <mutex>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/comm/make_group.hpp"
#include "sheaf/comm/thread_transport.hpp"

namespace sheaf::comm {
namespace {

void end(const Group& group) {
  Runtime& runtime = group.core().runtime();
  try {
    if (std::uncaught_exceptions() > 0) runtime.mark_failed();
    // A barrier with a name of its own: ranks that still want something else
    // hear that this one is at its end.
    if (!runtime.has_failed()) barrier(group, {.name = kEndOfProgram});
  } catch (const std::exception& error) {
    log_error("rank {}: at the end of the program: {}", runtime.rank(),
              error.what());
  }
  runtime.finalize();
}

// The first of the errors, preferring those that say what went wrong over
// those that say "a peer is gone".
class Errors {
 public:
  void add(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(error);
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

World::World(Group group) : group_(std::move(group)) {}

World::~World() {
  if (group_.is_member()) end(group_);
}

World init(int* argc, char*** argv) {
  return init(topo::options_from_environment(), argc, argv);
}

World init(const topo::Options& options, int* argc, char*** argv) {
  std::unique_ptr<Transport> transport =
      is_under_mpi_launcher() ? make_mpi_transport(argc, argv)
                              : std::move(make_thread_transports(1).front());
  return init(std::move(transport), options);
}

World init(std::unique_ptr<Transport> transport, const topo::Options& options) {
  set_log_rank(transport->rank());
  return World(make_world(std::make_shared<Runtime>(
      std::move(transport), RuntimeOptions{.options = options})));
}

void run_threads(const std::vector<std::string>& hosts,
                 const std::function<void(const Group&)>& body,
                 const topo::Options& options) {
  auto transports = make_thread_transports(static_cast<int>(hosts.size()));
  Errors errors;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto runtime = std::make_shared<Runtime>(
            std::move(transports[rank]),
            RuntimeOptions{.options = options,
                           .host = hosts[rank],
                           .arena_bytes = std::size_t{16} << 30});
        const World world(make_world(runtime));
        body(world);
      } catch (...) {
        errors.add(std::current_exception());
      }
    });
  for (auto& thread : threads) thread.join();
  errors.rethrow();
}

void run_threads(int ranks, const std::function<void(const Group&)>& body,
                 const topo::Options& options) {
  run_threads(std::vector<std::string>(static_cast<std::size_t>(ranks), "h"),
              body, options);
}

}  // namespace sheaf::comm
