#include "sheaf/topo/dims.hpp"

#include <cstdint>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::topo {
namespace {

int parse_size(std::string_view piece, std::size_t index,
               std::string_view whole) {
  const std::optional<int> size = parse_count(piece);
  SHEAF_CHECK(size, "topology '", printable(whole, 60), "': dimension ", index,
              " is '", printable(piece, 40),
              "', not a whole number; write sizes joined by x, such as 4x3");
  SHEAF_CHECK(*size >= 1, "topology '", printable(whole, 60), "': dimension ",
              index,
              " is 0; every dimension must be at least 1 (write 1 for an "
              "unused tier)");
  return *size;
}

void check_product(const Dims& dims) {
  std::int64_t product = 1;
  for (const int size : dims.sizes) {
    product *= size;
    SHEAF_CHECK(product <= std::numeric_limits<int>::max(), "topology ",
                dims.text(), " has more ranks than an int can count");
  }
}

// Keeps the number of ranks per host if it divides the number of ranks.
std::string fitting_example(const Dims& dims, int ranks) {
  const int inner = dims.sizes.empty() ? 1 : dims.sizes[0];
  if (ranks < inner || ranks % inner != 0) return concat(ranks);
  return concat(inner, "x", ranks / inner);
}

}  // namespace

int Dims::product() const {
  int product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

std::string Dims::text() const {
  std::string text;
  for (const int size : sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

Dims parse_dims(std::string_view text) {
  SHEAF_CHECK(!text.empty(),
              "empty topology; write one to four sizes joined by x, such as "
              "4x3 (4 ranks on each of 3 hosts)");
  const auto pieces = split(text, 'x');
  SHEAF_CHECK(pieces.size() <= kMaxDims, "topology '", printable(text, 60),
              "' has ", pieces.size(), " dimensions; at most ", kMaxDims,
              " are allowed (ranks per host, hosts, racks, aisles)");
  Dims dims;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    dims.sizes.push_back(parse_size(pieces[i], i, text));
  check_product(dims);
  return dims;
}

void check_fits(const Dims& dims, int ranks) {
  const int product = dims.product();
  SHEAF_CHECK(product == ranks, "topology ", dims.text(), " is for ", product,
              " ranks, but there are ", ranks, "; start ", product,
              " ranks (-n ", product, ") or declare a topology of ", ranks,
              ", such as ", fitting_example(dims, ranks));
}

}  // namespace sheaf::topo
