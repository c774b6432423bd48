#include "sheaf/topo/algorithm.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::topo {
namespace {

constexpr std::array<std::string_view, kAlgorithmCount> kAlgorithms{
    "auto", "shm", "ring", "halving", "tree", "hierarchical", "mpi"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectives{
    "barrier",    "broadcast", "reduce",         "all_reduce", "gather",
    "all_gather", "scatter",   "reduce_scatter", "all_to_all"};

std::string without_underscores(std::string_view name) {
  std::string plain(name);
  std::erase(plain, '_');
  return plain;
}

template <std::size_t N>
[[noreturn]] void throw_unknown(std::string_view what, std::string_view name,
                                const std::array<std::string_view, N>& names) {
  throw UsageError(concat("unknown ", what, " '", name, "'; use one of ",
                          join(names, ", ")));
}

}  // namespace

std::string_view name_of(Algorithm algorithm) noexcept {
  return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

Algorithm parse_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i)
    if (kAlgorithms[i] == name) return static_cast<Algorithm>(i);
  throw_unknown("algorithm", name, kAlgorithms);
}

std::string_view name_of(Collective collective) noexcept {
  return kCollectives[static_cast<std::size_t>(collective)];
}

Collective parse_collective(std::string_view name) {
  const std::string plain = without_underscores(name);
  for (std::size_t i = 0; i < kCollectives.size(); ++i)
    if (without_underscores(kCollectives[i]) == plain)
      return static_cast<Collective>(i);
  throw_unknown("collective", name, kCollectives);
}

}  // namespace sheaf::topo
