// Environment variables of launchers, and those of a job's secret: lines
// NAME=value.
// parser: sheaf/comm/transport/launch_environment.cpp
// parser: sheaf/comm/transport/node_list.cpp
// parser: sheaf/comm/network/secret.cpp
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/secret.hpp"
#include "sheaf/comm/network/socket.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fixed_random.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;

constexpr const char* kVariables[]{"FLUX_JOB_SIZE",
                                   "FLUX_TASK_RANK",
                                   "JSM_NAMESPACE_RANK",
                                   "JSM_NAMESPACE_SIZE",
                                   "MV2_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "PALS_LOCAL_SIZE",
                                   "PALS_RANKID",
                                   "PMIX_RANK",
                                   "PMI_RANK",
                                   "PMI_SIZE",
                                   "RANK",
                                   "SHEAF_ENCRYPT",
                                   "SHEAF_HOST_TIMEOUT",
                                   "SHEAF_SECRET",
                                   "SLURM_HET_SIZE",
                                   "SLURM_JOBID",
                                   "SLURM_JOB_ID",
                                   "SLURM_JOB_NODELIST",
                                   "SLURM_NODELIST",
                                   "SLURM_NTASKS",
                                   "SLURM_PROCID",
                                   "SLURM_PTY_PORT",
                                   "SLURM_STEPID",
                                   "SLURM_STEP_ID",
                                   "SLURM_STEP_NODELIST",
                                   "SLURM_STEP_NUM_TASKS",
                                   "SLURM_TASK_PID",
                                   "WORLD_SIZE"};
// Not a variable: the content of SHEAF_SECRET_FILE, and of one that others can
// read.
constexpr std::string_view kSecretFile = "secret file";
constexpr std::string_view kOpenFile = "open file";

// The environment, until the end of the input.
class Variables {
 public:
  explicit Variables(std::string_view lines) {
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      set(lines.substr(0, end));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  }
  ~Variables() {
    for (const char* name : kVariables) unsetenv(name);
    unsetenv("SHEAF_SECRET_FILE");
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  void set(std::string_view line) {
    const std::size_t equals = line.find('=');
    if (equals == line.npos) return;
    const std::string_view name = line.substr(0, equals);
    const std::string value(line.substr(equals + 1));
    if (name == kSecretFile) set_file(value, 0600);
    if (name == kOpenFile) set_file(value, 0640);
    if (std::find(std::begin(kVariables), std::end(kVariables), name) !=
        std::end(kVariables))
      setenv(std::string(name).c_str(), value.c_str(), 1);
  }

  void set_file(const std::string& value, mode_t mode) {
    file_ = Socket(memfd_create("secret", MFD_CLOEXEC));
    SHEAF_FUZZ_CHECK(::write(file_.fd(), value.data(), value.size()) ==
                     static_cast<ssize_t>(value.size()));
    SHEAF_FUZZ_CHECK(::fchmod(file_.fd(), mode) == 0);
    const std::string path = sheaf::concat("/proc/self/fd/", file_.fd());
    setenv("SHEAF_SECRET_FILE", path.c_str(), 1);
  }

  Socket file_;
};

template <class Fn>
void attempt(const Fn& fn) {
  try {
    fn();
  } catch (const sheaf::Error&) {
  }
}

void read_slurm() {
  const auto task = slurm_task();
  if (!task) return;
  SHEAF_FUZZ_CHECK(task->rank >= 0 && task->rank < task->tasks);
  const int port = port_of(*task);
  SHEAF_FUZZ_CHECK(port >= 10000 && port < 30000);
  for (const std::string& host : expand_node_list(task->nodes))
    SHEAF_FUZZ_CHECK(!host.empty() && host.size() <= 255 &&
                     host.find('[') == host.npos);
}

void read_mpi() {
  if (const auto task = mpi_task())
    SHEAF_FUZZ_CHECK(task->rank >= 0 && task->rank < task->tasks);
}

void read_secret() {
  const JobIdentity identity = find_identity("job");
  SHEAF_FUZZ_CHECK(identity.has_secret ==
                   (identity.key.bytes() != Key().bytes()));
}

}  // namespace

SHEAF_FUZZ_TARGET(launch) {
  sheaf::fuzz::fix_random();
  const Variables variables(sheaf::fuzz::text_of(input));
  attempt(read_slurm);
  attempt(read_mpi);
  attempt(read_secret);
  attempt([] { check_is_alone(/*is_mpi=*/true); });
  attempt([] { check_is_alone(/*is_mpi=*/false); });
  attempt([] { SHEAF_FUZZ_CHECK(host_timeout().count() >= 100); });
  attempt([] { (void)wants_encryption(); });
  (void)is_meant_to_be_alone();
  (void)is_under_mpi_launcher();
  SHEAF_FUZZ_CHECK(new_secret().size() == 64);
}
