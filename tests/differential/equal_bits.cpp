#include "equal_bits.hpp"

#include <cstring>
#include <map>

namespace differential {
namespace {

bool is_shared(const std::string& name) {
  return name.find(", weight ") != std::string::npos ||
         name.find(", gradient ") != std::string::npos;
}

bool has_same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
    return false;
  const at::Tensor first = a.cpu().contiguous();
  const at::Tensor second = b.cpu().contiguous();
  return std::memcmp(first.data_ptr(), second.data_ptr(), first.nbytes()) == 0;
}

struct Seen {
  at::Tensor value;
  std::size_t rank;
};

}  // namespace

std::string unequal_bits(const std::vector<RankResult>& found) {
  std::map<std::string, Seen> first;
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    for (const Entry& entry : found[rank].record) {
      if (!is_shared(entry.name)) continue;
      const Seen& seen =
          first.emplace(entry.name, Seen{entry.value, rank}).first->second;
      if (!has_same_bits(seen.value, entry.value))
        return entry.name + ": ranks " + std::to_string(seen.rank) + " and " +
               std::to_string(rank) + " have different bits";
    }
  return "";
}

}  // namespace differential
