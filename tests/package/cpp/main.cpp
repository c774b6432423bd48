// usage: cpp RANKS, where RANKS is the number of ranks it is started on.
#include <cstdlib>
#include <iostream>
#include <sheaf/base/dtype.hpp>
#include <sheaf/base/error.hpp>
#include <sheaf/topo/dims.hpp>

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  try {
    const auto dims = sheaf::topo::parse_dims(sheaf::concat(ranks, "x1"));
    sheaf::topo::check_fits(dims, ranks);
    std::cout << dims.text() << " " << sheaf::name_of(sheaf::DType::kF32)
              << "\n";
    return dims.product() == ranks ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return sheaf::exit_code(error);
  }
}
