#pragma once
// Launch variables and meetings for tests in which ranks are threads.

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/tensor/start/rendezvous.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/comm/network/loopback.hpp"
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

using test::free_port;
using test::Listener;

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

// What one process learns from the others.
inline std::string cards_of(const MeetingPlace& place, Deadline deadline) {
  const std::string mine = concat("card ", place.rank);
  const bool has_store = place.has_server || !place.path.empty();
  const comm::MeetingResult result =
      has_store ? meet(*open_store(place, deadline), place, deadline, mine)
                : comm::meet_at_rank_zero({.endpoints = endpoints_of(place),
                                           .identity = identity_of(place),
                                           .rank = place.rank,
                                           .size = place.world_size,
                                           .deadline = deadline,
                                           .place = text_of(place),
                                           .port_from = place.port_from,
                                           .host_from = place.host_from,
                                           .rank_from = place.rank_from,
                                           .size_from = place.world_size_from},
                                          mine);
  std::string all;
  for (const std::string& card : result.cards) all += card + ";";
  return all;
}

// The result of each process, here a thread: the strings or the error.
inline std::vector<std::string> hold(const std::vector<MeetingPlace>& places,
                                     milliseconds timeout) {
  std::vector<std::string> results(places.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = error_of<Error>([&] {
        throw Error(cards_of(places[i], steady_clock::now() + timeout));
      });
    });
  for (auto& thread : threads) thread.join();
  return results;
}

}  // namespace sheaf::tensor
