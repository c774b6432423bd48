// One rank of a program whose start method is an argument:
//   start_program WAY OUTPUT_FILE
// WAY is "init" for init(argc, argv), "comm" for comm::init(), "mpi", or an
// init_method. The program checks every collective and a step of messages, then
// writes its rank and the number of ranks, or the error, to OUTPUT_FILE.
// With START_LEAVE=return or exit rank 1 then exits, and the other ranks wait
// for it: in an all-reduce of a split group, or, with START_WAIT=recv, for a
// message.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/process/runtime.hpp"
#include "sheaf/tensor/start/init.hpp"
#include "tests/support/sweep.hpp"

namespace sheaf {
namespace {

comm::World start(const std::string& way, int& argc, char**& argv) {
  if (way == "init") return tensor::init(argc, argv);
  if (way == "comm") return comm::init(&argc, &argv);
  if (way == "mpi") return tensor::init_process_group({.backend = "mpi"});
  tensor::ProcessGroupOptions options{.backend = "gloo", .init_method = way};
  if (const char* timeout = std::getenv("START_TIMEOUT_MS"))
    options.timeout = std::chrono::milliseconds(std::atoi(timeout));
  return tensor::init_process_group(options);
}

void check_collectives(const comm::Group& group) {
  for (const auto memory : {test::Memory::kPlain, test::Memory::kArena})
    for (const std::size_t count : {1, 4097, 300001})
      test::check_large(group, {.count = count, .memory = memory});
}

void leave(const comm::World& world, const std::string& how) {
  const comm::Group group = world.group().split(0);
  std::vector<float> data(1000);
  comm::all_reduce(group, data).wait();
  if (world.rank() == 1 && how == "exit") std::exit(0);
  if (world.rank() == 1) return;
  const char* wait = std::getenv("START_WAIT");
  if (wait && std::string(wait) == "recv")
    comm::recv(group, data, 1);
  else
    comm::all_reduce(group, data).wait();
}

int run(const std::string& way, std::ostream& out, int argc, char** argv) {
  try {
    const auto world = start(way, argc, argv);
    check_collectives(world);
    auto& runtime = world.group().core().runtime();
    out << world.rank() << " of " << world.size() << " over "
        << runtime.transport().name() << " on "
        << runtime.host_map().host_count() << " hosts\n"
        << std::flush;
    if (const char* how = std::getenv("START_LEAVE")) leave(world, how);
    return testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    out << error.what() << "\n";
    return exit_code(error);
  }
}

}  // namespace
}  // namespace sheaf

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  if (argc < 3) return sheaf::run(argv[1], std::cout, argc, argv);
  std::ofstream out(argv[2]);
  return sheaf::run(argv[1], out, argc, argv);
}
