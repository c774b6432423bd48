// A rank of a job into which faults.py injects faults.
// fault_program PHASE ROUNDS FOLDER, where PHASE is the name of an operation,
// which is repeated ROUNDS times, or:
//   start       a barrier after start-up
//   between     computation, and only a barrier now and then
//   checkpoint  every rank writes its share of a checkpoint to FOLDER
//   end         the last rank returns from main while the others go on
//   busy        computation of a second, of one rank's in every 30th round of
//               45 s, with messages that nobody receives meanwhile
//   train       DataParallel trains a network; its weights are printed as a
//   hash
// Each rank prints when it has started, and either its error or that all
// results were right.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/sheaf.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf {
namespace {

using Round = std::function<void(int round)>;

void say(const std::string& text) {
  const std::string line = concat("at ", now_ns(), " ", text, "\n");
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

comm::Operation parse_operation(const std::string& name) {
  for (const auto operation : test::operations())
    if (name_of(operation) == name) return operation;
  throw UsageError("no phase " + name);
}

// 1.2 MB of f32 take 10 ms at 1 Gbit/s.
Round operation_round(const std::string& name, const comm::Group& world) {
  const auto operation = parse_operation(name);
  return [=](int round) {
    test::Case trial{.count = 300000, .first = static_cast<std::size_t>(round)};
    test::start(operation, world, trial)();
    if (testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed())
      throw CommError("wrong result");
  };
}

Round barrier_round(const comm::Group& world, std::chrono::milliseconds pause) {
  return [=](int /*round*/) {
    std::this_thread::sleep_for(pause);
    comm::barrier(world).wait();
  };
}

Round checkpoint_round(const std::string& folder, const comm::Group& world) {
  return [=](int round) {
    train::CheckpointFolder checkpoints(folder, 2);
    train::TrainState state;
    state.step = round + 1;
    state.weights = {{"weight", torch::full({4, 256, 1024}, round)}};
    checkpoints.save_shards(world, state);
    const auto loaded = checkpoints.load_step(round + 1);
    if (!torch::equal(loaded.weights.front().second,
                      state.weights.front().second))
      throw CommError("wrong result");
  };
}

// The last rank returns from main, while the others exchange messages.
Round end_round(const comm::Group& world) {
  return [=](int round) {
    const int ranks = world.size() - 1;
    const std::vector<int> sent{round};
    std::vector<int> received{-1};
    auto send = comm::isend(world, sent, (world.rank() + 1) % ranks);
    comm::recv(world, received, (world.rank() + ranks - 1) % ranks);
    send.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (received != sent) throw CommError("wrong result");
  };
}

// Every rank sends to one of another host, and computes before it receives. The
// message is larger than the buffers of a connection.
Round busy_round(const comm::Group& world) {
  return [=](int round) {
    const int ranks = world.size();
    const bool is_long = round % 30 == 1 && round / 30 % ranks == world.rank();
    const std::vector<int> sent(1 << 21, round);
    std::vector<int> received(sent.size(), -1);
    auto send = comm::isend(world, sent, (world.rank() + ranks / 2) % ranks);
    const auto until = now_ns() + (is_long ? 45 : 1) * std::int64_t{1000000000};
    while (now_ns() < until) continue;
    comm::recv(world, received, (world.rank() + ranks - ranks / 2) % ranks);
    send.wait();
    if (received != sent) throw CommError("wrong result");
    operation_round("all_reduce", world)(round);
  };
}

// Each rank draws its own examples. Returns a hash of the weights.
std::uint32_t train_network(const comm::Group& world, int steps) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::Tanh(),
                            torch::nn::Linear(256, 64));
  DataParallel model(net, world);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  seed_rank(2, world);
  for (int step = 0; step < steps; ++step) {
    const auto x = torch::randn({32, 64});
    forget_gradients(*net);
    torch::mse_loss(model(x), x.sin()).backward();
    optimizer.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::string bytes;
  for (const auto& one : net->parameters())
    bytes.append(static_cast<const char*>(one.data_ptr()), one.nbytes());
  return train::crc32c(bytes);
}

Round make_round(const std::string& phase, const std::string& folder,
                 const comm::Group& world) {
  using std::chrono::milliseconds;
  if (phase == "start") return barrier_round(world, milliseconds(1));
  if (phase == "between") return barrier_round(world, milliseconds(300));
  if (phase == "checkpoint") return checkpoint_round(folder, world);
  if (phase == "end") return end_round(world);
  if (phase == "busy") return busy_round(world);
  return operation_round(phase, world);
}

void live(const comm::Group& world, char** argv) {
  const std::string phase = argv[1];
  const bool leaves = phase == "end" && world.rank() == world.size() - 1;
  const int rounds = leaves ? 0 : std::atoi(argv[2]);
  say(concat("rank ", world.rank(), " runs as ", getpid()));
  if (phase == "train") {
    const auto hash = train_network(world, rounds);
    say(concat("rank ", world.rank(), " weights ", hash));
  } else {
    const Round round = make_round(phase, argv[3], world);
    for (int i = 0; i < rounds; ++i) round(i);
  }
  say(concat("rank ", world.rank(), " done"));
}

int run(int argc, char** argv) {
  try {
    const auto world = tensor::init(argc, argv);
    live(world, argv);
    return 0;
  } catch (const std::exception& error) {
    const auto outcome = test::outcome_of([] { throw; });
    say(concat("error ", outcome));
    return exit_code(error);
  }
}

}  // namespace
}  // namespace sheaf

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  return sheaf::run(argc, argv);
}
