// A program that loses a rank: all ranks repeat one operation, and one of them
// ends in a given way. The others report the error and when they received it.
// kill_program OPERATION COUNT plain|arena|mpi VICTIM WAY SEED, where WAY is
// kill, exit, return, throw or full (a write to a full disk). With mpi, the
// operation is a plain MPI_Allreduce.
// With a victim of -1, the ranks continue until they are killed.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/host/flight.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf {
namespace {

struct Plan {
  comm::Operation operation;
  test::Case test;
  int victim;
  std::string way;
  unsigned seed;
  bool is_plain_mpi = false;
};

comm::Operation parse_operation(const std::string& name) {
  for (const auto operation : test::operations())
    if (name_of(operation) == name) return operation;
  throw UsageError("no operation " + name);
}

Plan parse(char** arguments) {
  Plan plan{.operation = parse_operation(arguments[1]),
            .test = {.count = std::strtoull(arguments[2], nullptr, 10)},
            .victim = std::atoi(arguments[4]),
            .way = arguments[5],
            .seed = static_cast<unsigned>(std::atoi(arguments[6])),
            .is_plain_mpi = std::string(arguments[3]) == "mpi"};
  if (std::string(arguments[3]) == "arena")
    plan.test.memory = test::Memory::kArena;
  plan.test.options.timeout = std::chrono::seconds(30);
  return plan;
}

void say(int rank, const std::string& text) {
  const std::string line = concat("rank ", rank, " ", text, "\n");
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

// Kills the rank at a random time, whatever it is doing.
void kill_soon(int rank, unsigned seed) {
  const std::chrono::microseconds delay(seed % 3000);
  std::thread([=] {
    std::this_thread::sleep_for(delay);
    say(rank, concat("goes at ", now_ns()));
    kill(getpid(), SIGKILL);
  }).detach();
}

void write_to_full_disk() {
  std::ofstream file("/dev/full");
  if (!(file << "bytes" << std::flush))
    throw IoError(concat("cannot write /dev/full: ", strerror(errno)));
}

// Returns whether the rank should return from main.
bool go(const comm::Group& world, const Plan& plan) {
  if (plan.way == "kill") {
    kill_soon(world.rank(), plan.seed);
    return false;
  }
  say(world.rank(), concat("goes at ", now_ns()));
  if (plan.way == "exit") std::exit(0);
  if (plan.way == "throw") throw std::runtime_error("no more");
  if (plan.way == "full") write_to_full_disk();
  return true;
}

void operate(const comm::Group& world, const Plan& plan) {
  if (!plan.is_plain_mpi)
    return test::start(plan.operation, world, plan.test)();
  std::vector<float> data(plan.test.count);
  plain_mpi_all_reduce(world, {data.data(), data.size(), plan.test.dtype},
                       plan.test.op);
}

void repeat(const comm::Group& world, const Plan& plan) {
  const int last = 10 + static_cast<int>(plan.seed % 20);
  say(world.rank(), concat("is process ", getpid(), " on ", host_name()));
  for (int i = 0;; ++i) {
    if (world.rank() == plan.victim && i == last && go(world, plan)) return;
    operate(world, plan);
  }
}

int run(int argc, char** argv) {
  try {
    const Plan plan = parse(argv);
    const auto world = comm::init(&argc, &argv);
    try {
      repeat(world, plan);
    } catch (const std::exception& error) {
      const auto now = now_ns();
      const auto outcome = test::outcome_of([] { throw; });
      say(world.rank(), concat("heard at ", now, " ", outcome));
      throw;
    }
    return 0;
  } catch (const std::exception& error) {
    return exit_code(error);
  }
}

}  // namespace
}  // namespace sheaf

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  return sheaf::run(argc, argv);
}
