#include "sheaf/comm/group/world.hpp"

#include <stdlib.h>  // on_exit, which <cstdlib> need not have
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/process/start_limit.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

void end(const Group& world);

// The worlds of this process that have not ended. exit() does not destroy World
// objects on the stack. Without an orderly end, the other ranks would report
// this rank as dead, and messages in transit would be lost.
class OpenWorlds {
 public:
  // Never destroyed, because other destructors run after exit() has begun.
  static OpenWorlds& get() {
    static auto* const worlds = new OpenWorlds;
    return *worlds;
  }

  void add(const Group& world) {
    const std::lock_guard lock(mutex_);
    if (!has_handler_)
      ::on_exit([](int code, void*) { get().end_all(code); }, nullptr);
    has_handler_ = true;
    worlds_.push_back({::getpid(), world});
  }
  void remove(const Group& world) {
    const std::lock_guard lock(mutex_);
    std::erase_if(worlds_, [&](const Open& one) {
      return &one.world.core() == &world.core();
    });
  }

 private:
  struct Open {
    pid_t process;  // a child process inherits the list and the handler
    Group world;
  };

  // Skips the orderly end if the program fails or is in the middle of a call.
  void end_all(int code) {
    std::unique_lock lock(mutex_);
    const std::vector<Open> worlds = worlds_;
    lock.unlock();
    for (const auto& [process, world] : worlds)
      if (code == 0 && process == ::getpid() &&
          world.core().runtime().calls() == 0)
        end(world);
  }

  std::mutex mutex_;
  bool has_handler_ = false;
  std::vector<Open> worlds_;
};

void end(const Group& world) {
  Runtime& runtime = world.core().runtime();
  OpenWorlds::get().remove(world);
  if (runtime.is_finalized()) return;
  try {
    if (std::uncaught_exceptions() > 0) runtime.mark_failed();
    // A barrier with a reserved name: ranks that are still in another call
    // learn from it that this rank has reached its end.
    if (!runtime.has_failed()) barrier(world, {.name = kEndOfProgram}).wait();
  } catch (const std::exception& error) {
    log_error("rank {}: at the end of the program: {}", runtime.rank(),
              error.what());
  }
  runtime.finalize();
}

// Keeps the first error of several threads.
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
  report_uncaught_exceptions();
  return init(topo::options_from_environment(), argc, argv);
}

World init(const topo::Options& options, int* argc, char*** argv) {
  report_uncaught_exceptions();
  const bool is_mpi = is_under_mpi_launcher();
  std::unique_ptr<Transport> transport =
      is_mpi ? start_mpi(options, argc, argv)
             : std::move(make_thread_transports(1).front());
  if (transport->size() == 1) check_is_alone(is_mpi);
  return init(std::move(transport), options);
}

World init(std::unique_ptr<Transport> transport, const topo::Options& options) {
  set_log_rank(transport->rank());
  report_uncaught_exceptions(transport->rank());
  Group group = make_world(std::make_shared<Runtime>(
      std::move(transport), RuntimeOptions{.options = options}));
  OpenWorlds::get().add(group);
  return World(std::move(group));
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
