#pragma once
// Argument checks made by every collective before it starts. They throw
// UsageError.

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::comm {

void check_member(const Group& group, Operation operation);
void check_root(const Group& group, Operation operation, int root);
void check_reduction(const Group& group, Operation operation, ReduceOp op,
                     DType dtype);
void check_same_type(const Group& group, Operation operation,
                     const ConstBuffer& input, const ConstBuffer& output);
void check_count(const Group& group, Operation operation, const char* what,
                 std::size_t given, std::size_t needed);

// One block size per rank: `counts`, or `each` for all ranks if it is empty.
std::vector<std::size_t> block_counts(const Group& group, Operation operation,
                                      Counts counts, std::size_t each);
// Start offset of each block, followed by the end of the last block.
std::vector<std::size_t> block_starts(const std::vector<std::size_t>& counts);

Fingerprint make_fingerprint(Operation operation, DType dtype,
                             std::size_t count,
                             const CollectiveOptions& options);

inline std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }
inline const std::byte* bytes_of(const void* data) {
  return static_cast<const std::byte*>(data);
}

}  // namespace sheaf::comm
