#include "sheaf/comm/group/argument_checks.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::comm {

void check_member(const Group& group, Operation operation) {
  SHEAF_CHECK(group.is_member(), name_of(operation),
              ": this rank is not in the group; check is_member() first");
}

void check_root(const Group& group, Operation operation, int root) {
  check_member(group, operation);
  SHEAF_CHECK(root >= 0 && root < group.size(), "rank ", group.rank(), ": ",
              name_of(operation), " with root ", root,
              ", but the group has ranks 0 to ", group.size() - 1);
}

void check_reduction(const Group& group, Operation operation, ReduceOp op,
                     DType dtype) {
  check_member(group, operation);
  SHEAF_CHECK(is_defined(op, dtype), "rank ", group.rank(), ": ",
              name_of(operation), ": reduction ", name_of(op),
              " is not defined for ", name_of(dtype),
              "; see docs/explanation/algorithms.md for the supported types");
}

void check_same_type(const Group& group, Operation operation,
                     const ConstBuffer& input, const ConstBuffer& output) {
  SHEAF_CHECK(input.dtype == output.dtype, "rank ", group.rank(), ": ",
              name_of(operation), ": the input is ", name_of(input.dtype),
              ", the output ", name_of(output.dtype));
}

void check_count(const Group& group, Operation operation, const char* what,
                 std::size_t given, std::size_t needed) {
  SHEAF_CHECK(given == needed, "rank ", group.rank(), ": ", name_of(operation),
              ": the ", what, " has ", given, " elements, expected ", needed);
}

std::vector<std::size_t> block_counts(const Group& group, Operation operation,
                                      Counts counts, std::size_t each) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (counts.empty()) return std::vector<std::size_t>(ranks, each);
  SHEAF_CHECK(counts.size() == ranks, "rank ", group.rank(), ": ",
              name_of(operation), ": ", counts.size(), " counts for ", ranks,
              " ranks; pass one per rank");
  return {counts.begin(), counts.end()};
}

std::vector<std::size_t> block_starts(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> starts{0};
  for (const std::size_t count : counts)
    starts.push_back(starts.back() + count);
  return starts;
}

Fingerprint make_fingerprint(Operation operation, DType dtype,
                             std::size_t count,
                             const CollectiveOptions& options) {
  return {.operation = operation,
          .dtype = dtype,
          .op = options.op,
          .flags = static_cast<std::uint8_t>(
              static_cast<unsigned>(options.algorithm) |
              (options.reproducible ? 0x80u : 0u)),
          .root = options.root,
          .count = count,
          .name_hash = hash_name(options.name)};
}

}  // namespace sheaf::comm
