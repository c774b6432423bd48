// A target with defects, to test that fuzz_replay notices them.
#include <cstdlib>
#include <stdexcept>

#include "tests/fuzz/byte_source.hpp"

SHEAF_FUZZ_TARGET(faulty) {
  const std::string_view text = sheaf::fuzz::text_of(input);
  if (text == "throw") throw std::runtime_error("not an error of Sheaf");
  if (text == "abort") std::abort();
  if (text == "allocate") {
    static std::string much;
    much.resize(std::size_t{3} << 30);
  }
}
