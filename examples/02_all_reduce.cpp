#include <cstdio>
#include <sheaf/sheaf.hpp>

int main(int argc, char** argv) {
  auto world = sheaf::init(argc, argv);  // mpirun, sheaf run, or one process
  auto data = world.group().allocate<float>(1 << 20);  // seen by the host
  for (float& x : data) x = static_cast<float>(world.rank() + 1);

  sheaf::all_reduce(world, data).wait();  // a sum, in place, nothing copied

  std::printf("rank %d: %g\n", world.rank(), data[0]);
}
