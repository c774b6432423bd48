#pragma once
// The factors of some weights, in the form in which ranks exchange them.

#include <torch/types.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "sheaf/parallel/dad/factor_message.hpp"
#include "sheaf/parallel/matrix/low_rank.hpp"
#include "sheaf/parallel/products/graph.hpp"
#include "sheaf/parallel/products/products.hpp"

namespace sheaf::parallel {

// Identifies the calls with the same part of a weight and the same bias.
struct BlockKey {
  std::int64_t weight = -1;  // index among the parameters; -1: none
  std::int64_t bias = -1;
  WeightView view;
  auto operator<=>(const BlockKey&) const = default;
};
Numbers numbers_of(const BlockKey& key);
BlockKey block_key(const Numbers& numbers);

// Describes how to derive the deltas: (delta of the layer above, times its
// weight) * f'(its input).
struct DeltaSource {
  BlockKey above;  // without a weight: deltas are sent
  Activation activation = Activation::kIdentity;
};

struct FactorPart {
  BlockKey block;
  DeltaSource source;
  Factors factors;  // undefined if sent in another parcel
  // Rows of inputs that were sent in an earlier parcel and have no deltas: each
  // row holds the first index and the count. Undefined: none.
  at::Tensor voids;
  at::Tensor bias_sum;     // set if `deltas` does not contain all rows
  std::int64_t bytes = 0;  // total size in the message
  // The ranks' matrix products may round differently, so that
  // portable_product() must be used.
  bool needs_portable = false;
};

// Identifies a parcel: equal on all ranks that exchange it.
struct ParcelPlace {
  std::int64_t pass = 0;
  std::int64_t parcel = 0;
  bool operator==(const ParcelPlace&) const = default;
};

struct FactorParcel {
  ParcelPlace place;
  // Parameters that also have an ordinary gradient.
  Numbers remainders;
  std::vector<FactorPart> parts;
  // See product_identity().
  std::int64_t identity = 0;
};

struct FactorMessage {
  Numbers header;
  at::Tensor bytes;
};
// Also sets the byte counts of the parts.
FactorMessage encode_parcel(FactorParcel& parcel, const WireFormat& format);
FactorParcel decode_parcel(const FactorMessage& message,
                           const WireFormat& format);
// The number of bytes that belong to each header.
std::vector<std::size_t> payloads_of(const std::vector<Numbers>& headers);

// Appends rows.
void append(Factors& to, const Factors& more);

// Concatenates matrices of the same width along the rows.
at::Tensor stacked(const std::vector<at::Tensor>& rows);

}  // namespace sheaf::parallel
