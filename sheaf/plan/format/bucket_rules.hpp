#pragma once
// The rules by which data parallelism exchanges gradients: which gradients
// share a bucket, and what a pass sends. The runtime (sheaf/parallel) follows
// them, and the planner predicts with them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sheaf::plan {

// The properties of a gradient that its bucket depends on.
struct BucketItem {
  std::size_t bytes = 0;
  int type = 0;  // number of the element type
  int placement =
      0;  // number of the placement: equal if all ranks use one device
  bool goes_alone = false;
};

struct BucketCaps {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

// Fills buckets with the items in the given order. Each bucket holds one type
// and placement, and at most its cap unless a single item is larger. The first
// bucket is small, so that the exchange starts early. Buckets are returned in
// the order in which they are filled, as indices of items.
std::vector<std::vector<std::size_t>> plan_buckets(
    const std::vector<BucketItem>& items, const std::vector<std::size_t>& order,
    const BucketCaps& caps);

// Whether a dense gradient has a bucket of its own, so that ranks with it in
// host memory can exchange it in place. `is_on_devices`: all ranks have it on a
// GPU. `allows_in_place`: the exchange sends gradients as they are, not a
// converted copy. Below 256 KiB, a copy costs less than another message.
bool goes_alone(std::size_t bytes, bool is_on_devices, bool allows_in_place);

// Each gradient in a block begins at a multiple of 16 elements, a cache line of
// floats.
std::int64_t aligned_elements(std::int64_t elements);

// After the last bucket of a pass, a message counts the ranks that have used
// each parameter (32 bits for each), unless the last bucket has shown that all
// ranks have used all parameters once. For this, the block of that bucket has
// space for a *status* of each rank: nowhere, in the padding between gradients
// if there is any, or there or in additional elements.
enum class StatusPlace : std::uint8_t { kNone, kInPadding, kAnywhere };

// `goes_alone`: see above, of the bucket's gradients. `keeps_zeros`: the
// exchange returns 0 for an element exactly if it is 0 on all ranks.
// Between more than two hosts, the order in which the ranks' numbers are added
// depends on the length of the message, and with it their rounding. The status
// must not change the gradients, so it uses padding only.
StatusPlace status_place(bool goes_alone, bool keeps_zeros, bool uses_nccl,
                         int hosts);

struct BlockLayout {
  std::int64_t elements = 0;
  std::optional<std::int64_t> status_at = {};  // index of an element
};
// The block of a bucket with gradients of the given sizes. A gradient that is
// alone is not padded, so that the size equals that on a rank that exchanges it
// in place.
BlockLayout lay_out_block(const std::vector<std::int64_t>& gradients,
                          StatusPlace status = StatusPlace::kNone);

// The number of bytes of an all-reduce of 16-bit floats, counted as for f32: an
// all-reduce sends a buffer twice, first partial sums, then results. Between
// hosts partial sums are f32 and results 16 bits wide, which is 3/4 of the
// traffic of f32. Within a host ranks read and write 16 bits.
std::int64_t half_exchange_bytes(std::int64_t elements, int hosts);

}  // namespace sheaf::plan
