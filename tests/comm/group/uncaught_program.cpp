// A program that does not catch its errors: rank 1 ends by an exception while
// the other ranks wait for it.
// uncaught_program usage|mismatch|io|std|unknown|thread|own, where own installs
// a handler of the program before init().

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"

namespace {

void fail(const std::string& how) {
  if (how == "usage") throw sheaf::UsageError("rank 1: a wrong argument");
  if (how == "io") throw sheaf::IoError("no space");
  if (how == "unknown") throw 7;  // NOLINT: not a std::exception
  if (how == "thread")
    std::thread([] { throw sheaf::CheckError("wrong sum"); }).join();
  throw std::runtime_error("plain\nException raised from f\nframe #0: f");
}

void handler_of_program() {
  std::fputs("the program's own handler\n", stderr);
  std::_Exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "std";
  if (how == "own") std::set_terminate(handler_of_program);
  const auto world = sheaf::comm::init(&argc, &argv);
  sheaf::comm::barrier(world).wait();
  if (world.rank() == 1) fail(how);
  std::vector<float> data(10);
  sheaf::comm::all_reduce(world, data).wait();
}
