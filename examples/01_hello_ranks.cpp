// Every rank prints its number and its host:
//   build/sheaf run -n 2 -- build/examples/01_hello_ranks

#include <cstdio>
#include <sheaf/sheaf.hpp>

int main(int argc, char** argv) {
  auto world = sheaf::init(argc, argv);
  const sheaf::Group& group = world;
  std::printf("rank %d of %d on %s, %d of %d there\n", group.rank(),
              group.size(), group.host_name().c_str(), group.local_rank(),
              group.local_size());
}
