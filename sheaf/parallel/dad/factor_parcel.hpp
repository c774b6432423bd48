#pragma once
// The factors of some weights as ranks exchange them.

#include <torch/types.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "sheaf/parallel/dad/factor_message.hpp"
#include "sheaf/parallel/dad/graph.hpp"
#include "sheaf/parallel/dad/products.hpp"
#include "sheaf/parallel/matrix/low_rank.hpp"

namespace sheaf::parallel {

// Calls with the same part of a weight, and with the same bias.
struct BlockKey {
  std::int64_t weight = -1;  // by its place among the parameters; -1: none
  std::int64_t bias = -1;
  WeightView view;
  auto operator<=>(const BlockKey&) const = default;
};
Numbers numbers_of(const BlockKey& key);
BlockKey block_key(const Numbers& numbers);

// Delta = (that of the layer above, times its weight) * f'(its input).
struct DeltaSource {
  BlockKey above;  // without a weight: there is none, deltas are sent
  Activation activation = Activation::kIdentity;
};

struct FactorPart {
  BlockKey block;
  DeltaSource source;
  Factors factors;  // undefined where they go in another parcel
  // Rows of inputs that an earlier parcel had, and that have no deltas: the
  // first of them and their number, in each row. Undefined: none.
  at::Tensor voids;
  at::Tensor bias_sum;     // where the deltas are not all rows
  std::int64_t bytes = 0;  // of all that, on the way
  // The ranks compute products in different ways: they must not use them here.
  bool needs_portable = false;
};

// Which of a rank's parcels it is: the same on all ranks that exchange it.
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
  std::int64_t identity = 0;  // of the rank's products: product_identity.hpp
};

struct FactorMessage {
  Numbers header;
  at::Tensor bytes;
};
// Counts the bytes of the parts.
FactorMessage encode_parcel(FactorParcel& parcel, const WireFormat& format);
FactorParcel decode_parcel(const FactorMessage& message,
                           const WireFormat& format);
// How many bytes belong to each header.
std::vector<std::size_t> payloads_of(const std::vector<Numbers>& headers);

// More rows.
void append(Factors& to, const Factors& more);

// Matrices of the same width, one below the other.
at::Tensor stacked(const std::vector<at::Tensor>& rows);

}  // namespace sheaf::parallel
