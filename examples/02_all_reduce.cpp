// Sums a buffer over all ranks:
//   build/sheaf run -n 2 -- build/examples/02_all_reduce
#include <cstdio>
#include <sheaf/sheaf.hpp>

int main(int argc, char** argv) {
  auto world = sheaf::init(argc, argv);  // mpirun, sheaf run, or one process
  auto data = world.group().allocate<float>(1 << 20);  // shared memory
  for (float& x : data) x = static_cast<float>(world.rank() + 1);

  sheaf::all_reduce(world, data).wait();  // sum, in place, no copy

  std::printf("rank %d: %g\n", world.rank(), data[0]);
}
