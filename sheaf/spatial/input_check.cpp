#include "sheaf/spatial/input_check.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {
namespace {

// Checksums for the two kinds of differences.
struct Digest {
  std::uint64_t form = 0x9e3779b97f4a7c15u;   // types and sizes
  std::uint64_t bytes = 0x9e3779b97f4a7c15u;  // types, sizes and contents
};

void add(std::uint64_t& digest, std::uint64_t number) {
  digest = (digest ^ number) * 0xff51afd7ed558ccdu;
  digest ^= digest >> 32;
}

Digest digest_of(const std::vector<at::Tensor>& inputs) {
  Digest digest;
  for (const at::Tensor& input : inputs) {
    add(digest.form, input.defined() ? 1 : 0);
    if (!input.defined()) continue;
    add(digest.form, static_cast<std::uint64_t>(input.scalar_type()));
    add(digest.form, static_cast<std::uint64_t>(input.dim()));
    for (const std::int64_t size : input.sizes())
      add(digest.form, static_cast<std::uint64_t>(size));
    if (!is_split(input)) add(digest.bytes, parallel::checksum(input));
  }
  return digest;
}

std::string text_of(const std::vector<at::Tensor>& inputs) {
  std::string text;
  for (const at::Tensor& input : inputs)
    if (input.defined())
      text += concat(text.empty() ? "" : " and ",
                     c10::toString(input.scalar_type()), " ", input.sizes());
  return text;
}

}  // namespace

void check_same_inputs(const InputCheck& check,
                       const std::vector<at::Tensor>& inputs) {
  const comm::Group& grid = check.grid;
  if (grid.size() == 1) return;
  const Digest own = digest_of(inputs);
  const std::vector<std::int64_t> mine{static_cast<std::int64_t>(own.form),
                                       static_cast<std::int64_t>(own.bytes)};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(grid.size()));
  comm::all_gather(grid, mine, all, {.name = "digests of images"}).wait();
  std::string others;
  bool is_form = false;
  for (std::size_t rank = 1; 2 * rank < all.size(); ++rank) {
    is_form = is_form || all[2 * rank] != all[0];
    if (all[2 * rank] != all[0] || all[2 * rank + 1] != all[1])
      others += concat(others.empty() ? "" : ", ",
                       check.first_rank + static_cast<int>(rank));
  }
  SHEAF_CHECK(others.empty(), "rank ", check.first_rank + grid.rank(),
              ": all ranks of a grid must be given the same images, but ",
              is_form ? "types or sizes" : "contents",
              " of those given on rank ", others, " differ from rank ",
              check.first_rank, "'s (this rank has ", text_of(inputs), "); ",
              check.advice);
}

}  // namespace sheaf::spatial
