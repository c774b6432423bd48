#include "sheaf/parallel/dad/factor_parcel.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf::parallel {
namespace {

struct BlockNumbers {
  std::int64_t weight, bias, in, out, in_stride, out_stride, offset, is_lookup;
};
using BlockArray =
    std::array<std::int64_t, sizeof(BlockNumbers) / sizeof(std::int64_t)>;

BlockNumbers pack(const BlockKey& key) {
  const WeightView& view = key.view;
  return {key.weight,     key.bias,        view.in,     view.out,
          view.in_stride, view.out_stride, view.offset, view.is_lookup};
}
BlockKey unpack(const BlockNumbers& n) {
  return {n.weight,
          n.bias,
          {n.in, n.out, n.in_stride, n.out_stride, n.offset, n.is_lookup != 0}};
}

// The header of one part. The tensors of all parts are concatenated in the
// bytes.
struct PartHeader {
  BlockNumbers block;
  BlockNumbers above;
  std::int64_t activation;
  std::int64_t type;
  std::int64_t rows, input_bytes, delta_rows, delta_bytes, bias_bytes;
  std::int64_t voids, void_bytes;
};
constexpr std::size_t kPartNumbers = sizeof(PartHeader) / sizeof(std::int64_t);
static_assert(kPartNumbers == plan::kPartHeaderNumbers);
using PartArray = std::array<std::int64_t, kPartNumbers>;

std::int64_t bytes_of(const PartHeader& part) {
  return part.input_bytes + part.delta_bytes + part.bias_bytes +
         part.void_bytes;
}

// The header begins with the identity, the parcel's place, the number of
// remainders and the remainders; the parts follow.
constexpr std::size_t kIdentityAt = 0, kPassAt = 1, kParcelAt = 2, kCountAt = 3,
                      kRemaindersAt = plan::kParcelHeaderNumbers;

std::vector<PartHeader> parts_of(const Numbers& header) {
  const std::size_t begin =
      kRemaindersAt + static_cast<std::size_t>(header[kCountAt]);
  SHEAF_ASSERT((header.size() - begin) % kPartNumbers == 0, "header");
  std::vector<PartHeader> parts;
  for (std::size_t i = begin; i < header.size(); i += kPartNumbers) {
    PartArray values;
    std::copy_n(header.begin() + static_cast<long>(i), kPartNumbers,
                values.begin());
    parts.push_back(std::bit_cast<PartHeader>(values));
  }
  return parts;
}

// Encodes a sequence of tensors.
class Writer {
 public:
  std::int64_t add(const at::Tensor& matrix, const WireFormat& format) {
    if (!matrix.defined()) return 0;
    pieces_.push_back(encode(matrix, format));
    return pieces_.back().numel();
  }
  at::Tensor bytes() const { return at::cat(pieces_); }

 private:
  std::vector<at::Tensor> pieces_{at::empty({0}, at::kByte)};
};

class Reader {
 public:
  explicit Reader(at::Tensor bytes) : bytes_(std::move(bytes)) {}
  at::Tensor next(std::int64_t size, at::IntArrayRef sizes, at::ScalarType type,
                  const WireFormat& format) {
    place_ += size;
    return decode(bytes_.narrow(0, place_ - size, size), sizes, type, format);
  }

 private:
  at::Tensor bytes_;
  std::int64_t place_ = 0;
};

PartHeader header_of(const FactorPart& part) {
  const auto& [inputs, deltas] = part.factors;
  PartHeader header{};
  header.block = pack(part.block);
  header.above = pack(part.source.above);
  header.activation = static_cast<std::int64_t>(part.source.activation);
  if (inputs.defined()) header.rows = inputs.size(0);
  if (deltas.defined()) header.delta_rows = deltas.size(0);
  if (part.voids.defined()) header.voids = part.voids.size(0);
  for (const at::Tensor& one : {inputs, deltas, part.bias_sum})
    if (one.defined() && one.is_floating_point())
      header.type = static_cast<std::int64_t>(one.scalar_type());
  return header;
}

}  // namespace

Numbers numbers_of(const BlockKey& key) {
  const auto values = std::bit_cast<BlockArray>(pack(key));
  return {values.begin(), values.end()};
}

BlockKey block_key(const Numbers& numbers) {
  BlockArray values;
  SHEAF_ASSERT(numbers.size() == values.size(), "numbers of a block");
  std::copy(numbers.begin(), numbers.end(), values.begin());
  return unpack(std::bit_cast<BlockNumbers>(values));
}

FactorMessage encode_parcel(FactorParcel& parcel, const WireFormat& format) {
  FactorMessage message;
  Numbers& numbers = message.header;
  numbers = {parcel.identity, parcel.place.pass, parcel.place.parcel,
             static_cast<std::int64_t>(parcel.remainders.size())};
  numbers.insert(numbers.end(), parcel.remainders.begin(),
                 parcel.remainders.end());
  Writer writer;
  for (FactorPart& part : parcel.parts) {
    PartHeader header = header_of(part);
    header.input_bytes = writer.add(part.factors.inputs, format);
    header.delta_bytes = writer.add(part.factors.deltas, format);
    header.bias_bytes = writer.add(part.bias_sum, {});
    header.void_bytes = writer.add(part.voids, {});
    part.bytes = bytes_of(header);
    const auto values = std::bit_cast<PartArray>(header);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  message.bytes = writer.bytes();
  return message;
}

FactorParcel decode_parcel(const FactorMessage& message,
                           const WireFormat& format) {
  FactorParcel parcel;
  parcel.identity = message.header[kIdentityAt];
  parcel.place = {message.header[kPassAt], message.header[kParcelAt]};
  const auto first = message.header.begin() + kRemaindersAt;
  parcel.remainders.assign(first, first + message.header[kCountAt]);
  Reader reader(message.bytes);
  for (const PartHeader& header : parts_of(message.header)) {
    const auto type = static_cast<at::ScalarType>(header.type);
    FactorPart part;
    part.block = unpack(header.block);
    part.source = {unpack(header.above),
                   static_cast<Activation>(header.activation)};
    part.bytes = bytes_of(header);
    const WeightView& view = part.block.view;
    if (header.rows > 0)
      part.factors.inputs =
          view.is_lookup
              ? reader.next(header.input_bytes, {header.rows, 1}, at::kLong, {})
              : reader.next(header.input_bytes, {header.rows, view.in}, type,
                            format);
    if (header.delta_rows > 0)
      part.factors.deltas = reader.next(
          header.delta_bytes, {header.delta_rows, view.out}, type, format);
    if (header.bias_bytes > 0)
      part.bias_sum = reader.next(header.bias_bytes, {view.out}, type, {});
    if (header.voids > 0)
      part.voids =
          reader.next(header.void_bytes, {header.voids, 2}, at::kLong, {});
    parcel.parts.push_back(std::move(part));
  }
  return parcel;
}

std::vector<std::size_t> payloads_of(const std::vector<Numbers>& headers) {
  std::vector<std::size_t> sizes;
  for (const Numbers& header : headers) {
    std::int64_t size = 0;
    for (const PartHeader& part : parts_of(header)) size += bytes_of(part);
    sizes.push_back(static_cast<std::size_t>(size));
  }
  return sizes;
}

void append(Factors& to, const Factors& more) {
  if (!to.inputs.defined()) {
    to = more;
  } else if (more.inputs.defined()) {
    to.inputs = at::cat({to.inputs, more.inputs});
    to.deltas = at::cat({to.deltas, more.deltas});
  }
}

at::Tensor stacked(const std::vector<at::Tensor>& rows) {
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

}  // namespace sheaf::parallel
