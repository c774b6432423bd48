// usage: cpp RANKS, where RANKS is the number of ranks it is started on.
#include <cstdlib>
#include <iostream>
#include <sheaf/sheaf.hpp>
#include <vector>

int run(int ranks, int argc, char** argv) {
  auto world = sheaf::init(argc, argv);
  std::vector<float> data(1000, static_cast<float>(world.rank() + 1));
  sheaf::all_reduce(world, data).wait();
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  std::cout << world.rank() << " of " << world.size() << ": " << data.back()
            << "\n";
  return world.size() == ranks && data.front() == sum && data.back() == sum ? 0
                                                                            : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 1, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return sheaf::exit_code(error);
  }
}
