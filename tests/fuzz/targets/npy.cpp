// Arrays in .npy files: the header, and elements that are not in the form of
// this machine.
// parser: sheaf/formats/arrays/npy.cpp sheaf/formats/arrays/elements.cpp
#include "sheaf/formats/arrays/npy.hpp"

#include <algorithm>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/arrays/elements.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using namespace sheaf::formats;

SHEAF_FUZZ_TARGET(npy) try {
  const std::string bytes(input.begin(), input.end());
  ByteReader reader("input", bytes);
  const auto [header, elements] = read_npy(reader);
  if (elements.size() != static_cast<std::size_t>(header.bytes())) std::abort();
  std::string copy(elements.size(), 'x');
  copy_elements(header.dtype, header.is_swapped, elements, copy.data());
  if (header.dtype == sheaf::DType::kBool &&
      std::any_of(copy.begin(), copy.end(),
                  [](char byte) { return byte != 0 && byte != 1; }))
    std::abort();
  const std::string written =
      make_npy_header(header.dtype, header.shape) + copy;
  ByteReader again("written", written);
  if (read_npy(again).elements != copy) std::abort();
} catch (const sheaf::Error&) {
}
