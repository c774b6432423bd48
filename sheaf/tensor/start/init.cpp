#include "sheaf/tensor/start/init.hpp"

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/process/runtime.hpp"
#include "sheaf/comm/process/start_limit.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/tensor/groups/nccl.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

topo::Options run_options(const ProcessGroupOptions& options) {
  topo::Options result = topo::options_from_environment();
  if (options.timeout.count() > 0)
    result.timeout_ms = static_cast<int>(options.timeout.count());
  return result;
}

// Numbers successive starts at the same place, so that their keys differ.
int next_start(const std::string& place) {
  static std::mutex mutex;
  static std::map<std::string, int> starts;
  const std::lock_guard lock(mutex);
  return starts[place]++;
}

std::unique_ptr<comm::Transport> connect(MeetingPlace place,
                                         std::chrono::milliseconds timeout) {
  if (place.world_size == 1)
    return std::move(comm::make_thread_transports(1).front());
  place.prefix += concat("/", next_start(concat(text_of(place), place.prefix)));
  return connect_ranks(place, std::chrono::steady_clock::now() + timeout);
}

comm::World init_tcp(const ProcessGroupOptions& options) {
  const topo::Options run = run_options(options);
  const std::chrono::milliseconds timeout =
      run.timeout_ms ? std::chrono::milliseconds(*run.timeout_ms)
                     : comm::kDefaultTimeout;
  return comm::init(connect(find_meeting_place(options), timeout), run);
}

void check_mpi(const char* name, int wanted, int actual) {
  SHEAF_CHECK(wanted < 0 || wanted == actual, "the option ", name, " is ",
              wanted, ", but the MPI launcher assigned ", actual,
              "; omit the option with backend mpi");
}

comm::World init_mpi(const ProcessGroupOptions& options) {
  const std::string& method = options.init_method;
  SHEAF_CHECK(method.empty() || method == "env://", "init_method ", method,
              " cannot be used with backend mpi, whose launcher assigns the "
              "ranks; omit it, or choose backend gloo");
  SHEAF_CHECK(!comm::wants_encryption(),
              "SHEAF_ENCRYPT=1: messages of MPI are not encrypted; choose "
              "backend gloo, or unset SHEAF_ENCRYPT");
  const topo::Options run = run_options(options);
  auto transport = comm::start_mpi(run);
  if (transport->size() == 1) comm::check_is_alone(/*is_mpi=*/true);
  check_mpi("rank", options.rank, transport->rank());
  check_mpi("world_size", options.world_size, transport->size());
  return comm::init(std::move(transport), run);
}

comm::World start(const ProcessGroupOptions& options) {
  const std::string& backend = options.backend;
  if (backend.empty()) {
    const bool is_mpi = comm::is_under_mpi_launcher() &&
                        options.init_method.empty() &&
                        !comm::wants_encryption();
    return is_mpi ? init_mpi(options) : init_tcp(options);
  }
  if (backend == "mpi") return init_mpi(options);
  if (backend == "gloo") return init_tcp(options);
  if (backend == "nccl") {
    nccl::check_available();
    ProcessGroupOptions host = options;  // for CPU tensors and NCCL's setup
    host.backend.clear();
    comm::World world = start(host);
    nccl::enable(world);
    return world;
  }
  constexpr std::array<std::string_view, 3> kBackends{"mpi", "gloo", "nccl"};
  throw UsageError(concat("unknown backend '", backend,
                          "'; allowed: mpi, gloo, nccl",
                          did_you_mean(backend, kBackends)));
}

// Whether torchrun's variables or, in their absence, Slurm's define ranks.
bool has_variables_of_ranks() {
  if (comm::wants_encryption() && comm::mpi_task()) return true;
  const bool has_size = std::getenv("WORLD_SIZE");
  if (has_size) return std::getenv("RANK");
  const auto task = comm::slurm_task();
  return task && task->tasks > 1;
}

comm::World with_advice(comm::World world) {
  if (world.rank() != 0) return world;
  if (const std::string advice = slow_openblas(); !advice.empty())
    log_warn("{}", advice);
  return world;
}

}  // namespace

comm::World init_process_group(const ProcessGroupOptions& options) {
  report_uncaught_exceptions();
  return with_advice(start(options));
}

comm::World init(int& argc, char**& argv) {
  report_uncaught_exceptions();
  const bool is_mpi =
      comm::is_under_mpi_launcher() && !comm::wants_encryption();
  if (!is_mpi && has_variables_of_ranks())
    return init_process_group({.backend = "gloo"});
  return with_advice(comm::init(&argc, &argv));
}

}  // namespace sheaf::tensor
