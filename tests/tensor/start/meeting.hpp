#pragma once
// Launch variables and meetings for tests in which ranks are threads.

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/comm/transport/tcp_socket.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::tensor {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLong(20'000);
constexpr milliseconds kShort(700);

// Sets some of the launchers' variables for a test; the others are unset.
class LaunchVariables : public test::ScopedVariables {
 public:
  explicit LaunchVariables(const Values& values)
      : ScopedVariables({"RANK",
                         "WORLD_SIZE",
                         "MASTER_ADDR",
                         "MASTER_PORT",
                         "TORCHELASTIC_USE_AGENT_STORE",
                         "TORCHELASTIC_RESTART_COUNT",
                         "SLURM_JOB_ID",
                         "SLURM_STEP_ID",
                         "SLURM_STEPID",
                         "SLURM_PROCID",
                         "SLURM_NTASKS",
                         "SLURM_STEP_NUM_TASKS",
                         "SLURM_STEP_NODELIST",
                         "SLURM_NODELIST",
                         "SLURM_JOB_NODELIST",
                         "SLURM_HET_SIZE",
                         "SLURM_PTY_PORT",
                         "SLURMD_NODENAME",
                         "OMPI_COMM_WORLD_SIZE",
                         "PMIX_RANK",
                         "PMI_SIZE",
                         "PMI_RANK",
                         "MV2_COMM_WORLD_SIZE",
                         "FLUX_TASK_RANK",
                         "FLUX_JOB_SIZE"}) {
    set(values);
  }

  // The variables that srun sets for a task of step 17.2.
  static Values slurm(int rank, int tasks) {
    return {{"SLURM_JOB_ID", "17"},
            {"SLURM_STEP_ID", "2"},
            {"SLURM_PROCID", std::to_string(rank)},
            {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)},
            {"SLURM_STEP_NODELIST", "node[07-09]"}};
  }
};

inline bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// A listening socket on a free port.
struct Listener {
  Listener() { socket = comm::listen_on_any_port(card); }
  comm::TcpCard card{};
  comm::Socket socket;
};

inline std::uint16_t free_port() { return Listener().card.port; }

inline MeetingPlace at_port(std::uint16_t port, int rank, int world_size) {
  return find_meeting_place(
      {.init_method = concat("tcp://127.0.0.1:", port, "?rank=", rank,
                             "&world_size=", world_size)});
}

inline MeetingPlace at_file(const TemporaryFolder& folder, int rank,
                            int world_size) {
  return find_meeting_place(
      {.init_method = concat("file://", (folder.path() / "meet").string()),
       .world_size = world_size,
       .rank = rank});
}

// The result of each process, here a thread: the strings or the error.
inline std::vector<std::string> hold(const std::vector<MeetingPlace>& places,
                                     milliseconds timeout) {
  std::vector<std::string> results(places.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = error_of<Error>([&] {
        const auto deadline = steady_clock::now() + timeout;
        const auto store = open_store(places[i], deadline);
        std::string all;
        for (const auto& text :
             meet(*store, places[i], deadline, concat("card ", places[i].rank)))
          all += text + ";";
        throw Error(all);
      });
    });
  for (auto& thread : threads) thread.join();
  return results;
}

}  // namespace sheaf::tensor
