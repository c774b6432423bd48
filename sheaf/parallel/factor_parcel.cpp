// The exchange of a parcel, and gradients from what has come.

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/parallel/factor_reducer.hpp"

namespace sheaf::parallel {
namespace {

at::Tensor stacked(const std::vector<at::Tensor>& rows) {
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

// What tells a block of a weight.
struct BlockNumbers {
  std::int64_t weight, in, out, in_stride, out_stride, offset, is_lookup, bias;

  static BlockNumbers of(std::int64_t weight, const WeightView& view,
                         std::int64_t bias) {
    return {weight,          view.in,     view.out,       view.in_stride,
            view.out_stride, view.offset, view.is_lookup, bias};
  }
  WeightView view() const {
    return {in, out, in_stride, out_stride, offset, is_lookup != 0};
  }
};

// What a header says of one part. Its deltas were sent, or can be computed from
// those of the block `from`, whose weight is -1 where there is none.
struct PartHeader {
  BlockNumbers block;
  std::int64_t rows, input_bytes, delta_rows, delta_bytes, bias_bytes;
  std::int64_t activation;
  BlockNumbers from;
};
constexpr std::size_t kPartNumbers = sizeof(PartHeader) / sizeof(std::int64_t);

using PartNumbers = std::array<std::int64_t, kPartNumbers>;

void append(Numbers& numbers, const PartHeader& part) {
  const auto values = std::bit_cast<PartNumbers>(part);
  numbers.insert(numbers.end(), values.begin(), values.end());
}

std::int64_t bytes_of(const PartHeader& part) {
  return part.input_bytes + part.delta_bytes + part.bias_bytes;
}

std::vector<PartHeader> parts_of(const Numbers& numbers) {
  const std::size_t begin = 1 + static_cast<std::size_t>(numbers[0]);
  SHEAF_ASSERT((numbers.size() - begin) % kPartNumbers == 0, "header");
  std::vector<PartHeader> parts;
  for (std::size_t i = begin; i < numbers.size(); i += kPartNumbers) {
    PartNumbers values;
    std::copy_n(numbers.begin() + static_cast<long>(i), kPartNumbers,
                values.begin());
    parts.push_back(std::bit_cast<PartHeader>(values));
  }
  return parts;
}

}  // namespace

void FactorReducer::send(Parcel& parcel) {
  const Stopwatch watch;
  const TraceSpan span(options_.trace, parcel.name, "exchange", 1);
  const at::NoGradGuard no_grad;
  Numbers numbers{static_cast<std::int64_t>(parcel.remainders.size())};
  numbers.insert(numbers.end(), parcel.remainders.begin(),
                 parcel.remainders.end());
  std::vector<at::Tensor> pieces{at::empty({0}, at::kByte)};
  for (Part& part : parcel.parts) {
    const Block& block = *part.block;
    Factors factors;
    if (!part.inputs.empty()) factors.inputs = stacked(part.inputs);
    if (!part.deltas.empty()) factors.deltas = stacked(part.deltas);
    at::Tensor bias;
    if (plan_.routes[part.weight] == Route::kRankDad && !block.view.is_lookup) {
      if (block.bias >= 0) bias = factors.deltas.sum(0);
      factors =
          reduced({factors.inputs.to(at::kCPU), factors.deltas.to(at::kCPU)},
                  *part.block);
    }
    PartHeader header{};
    header.block = BlockNumbers::of(static_cast<std::int64_t>(part.weight),
                                    block.view, block.bias);
    const auto add = [&](const at::Tensor& matrix, const WireFormat& format) {
      if (!matrix.defined()) return std::int64_t{0};
      pieces.push_back(encode(matrix, format));
      return pieces.back().numel();
    };
    if (factors.inputs.defined()) header.rows = factors.inputs.size(0);
    header.input_bytes = add(factors.inputs, options_.wire);
    if (factors.deltas.defined()) header.delta_rows = factors.deltas.size(0);
    header.delta_bytes = add(factors.deltas, options_.wire);
    header.bias_bytes = add(bias, {});
    const Source& source = part.source;
    header.activation = static_cast<std::int64_t>(source.activation);
    header.from = BlockNumbers::of(parcel.is_backward ? source.weight : -1,
                                   source.view, source.bias);
    append(numbers, header);
  }
  const auto all = share_numbers(group_, options_.where, numbers);
  std::vector<std::size_t> sizes;
  for (const Numbers& one : all) {
    std::int64_t size = 0;
    for (const PartHeader& part : parts_of(one)) size += bytes_of(part);
    sizes.push_back(static_cast<std::size_t>(size));
  }
  const at::Tensor mine = at::cat(pieces);
  const auto bytes = share_bytes(group_, options_.where, mine, sizes);
  stats_.bytes += mine.numel();
  const double spent = watch.ms();
  const double total = std::max(1.0, static_cast<double>(mine.numel()));
  for (const PartHeader& part : parts_of(numbers)) {
    FactorStats& stats =
        sites_[static_cast<std::size_t>(part.block.weight)].stats;
    stats.exchange_ms += spent * static_cast<double>(bytes_of(part)) / total;
  }
  for (int r = 0; r < group_.size(); ++r)
    take(r, all[static_cast<std::size_t>(r)],
         bytes[static_cast<std::size_t>(r)]);
  stats_.exchange_ms += watch.ms();
  ++stats_.buckets;
}

Factors FactorReducer::reduced(const Factors& factors, Block& block) {
  const LowRankOptions& wanted = options_.low_rank;
  if (wanted.power_iterations > 0)
    return power_iteration(factors, wanted.rank, wanted.power_iterations,
                           wanted.tolerance,
                           static_cast<std::uint64_t>(stats_.passes));
  return low_rank(factors, wanted,
                  wanted.feedback_rows > 0 ? &block.rest : nullptr);
}

void FactorReducer::take(std::int64_t rank, const Numbers& numbers,
                         const at::Tensor& bytes) {
  for (std::int64_t i = 0; i < numbers[0]; ++i)
    anyone_has_[static_cast<std::size_t>(
        numbers[static_cast<std::size_t>(i) + 1])] = true;
  std::int64_t place = 0;
  for (const PartHeader& part : parts_of(numbers)) {
    const auto weight = static_cast<std::size_t>(part.block.weight);
    const auto type = parameters_[weight].tensor.scalar_type();
    const WeightView view = part.block.view();
    const std::int64_t bias = part.block.bias;
    Site& site = sites_[weight];
    const auto matches = [&](const Got& got) {
      return got.rank == rank && got.view == view && got.bias == bias;
    };
    auto got = std::find_if(site.got.begin(), site.got.end(), matches);
    if (got == site.got.end())
      got = site.got.insert(got, {rank, view, bias, {}, {}, {}, {}});
    if (part.from.weight >= 0) {
      got->source = {part.from.weight, static_cast<Activation>(part.activation),
                     part.from.view(), part.from.bias};
      if (rank == group_.rank())
        site.source = static_cast<std::size_t>(part.from.weight);
    }
    const auto next = [&](std::int64_t size, at::IntArrayRef sizes,
                          at::ScalarType of, const WireFormat& format) {
      const at::Tensor matrix =
          decode(bytes.narrow(0, place, size), sizes, of, format);
      place += size;
      return matrix;
    };
    if (part.rows > 0)
      got->inputs.push_back(
          view.is_lookup ? next(part.input_bytes, {part.rows, 1}, at::kLong, {})
                         : next(part.input_bytes, {part.rows, view.in}, type,
                                options_.wire));
    if (part.delta_rows > 0)
      got->deltas.push_back(next(part.delta_bytes, {part.delta_rows, view.out},
                                 type, options_.wire));
    if (part.bias_bytes > 0)
      got->bias_sum = next(part.bias_bytes, {view.out}, type, {});
    if (rank == group_.rank() && part.delta_rows > 0) site.source.reset();
    (rank == group_.rank() ? site.stats.sent : site.stats.received) +=
        bytes_of(part);
    site.stats.rows += part.delta_rows;
    if (rank == group_.rank()) site.stats.own_rows += part.delta_rows;
  }
}

// Ranks whose rows follow each other below do so above.
void FactorReducer::derive_deltas(std::size_t weight) {
  for (Got& got : sites_[weight].got) {
    if (got.source.weight < 0) continue;
    const auto from = static_cast<std::size_t>(got.source.weight);
    const auto matches = [&](const Got& other) {
      return other.rank == got.rank && other.view == got.source.view &&
             other.bias == got.source.bias;
    };
    const auto above =
        std::find_if(sites_[from].got.begin(), sites_[from].got.end(), matches);
    SHEAF_ASSERT(above != sites_[from].got.end() && !above->deltas.empty(),
                 "no deltas of ", parameters_[from].name);
    const at::Tensor part =
        part_of(parameters_[from].tensor.detach(), above->view).to(at::kCPU);
    got.deltas = {times_derivative(stacked(above->deltas).mm(part),
                                   got.source.activation,
                                   stacked(above->inputs))};
    sites_[weight].stats.rows += got.deltas[0].size(0);
  }
}

// Rows of all ranks that belong to the same part of the weight go into one
// product, in the order of ranks: the same bits everywhere.
void FactorReducer::make_gradient(std::size_t weight) {
  const Stopwatch watch;
  derive_deltas(weight);
  std::vector<Got> merged;
  std::stable_sort(sites_[weight].got.begin(), sites_[weight].got.end(),
                   [](const Got& a, const Got& b) { return a.rank < b.rank; });
  for (const Got& got : sites_[weight].got) {
    const auto matches = [&](const Got& other) {
      return other.view == got.view && other.bias == got.bias;
    };
    auto found = std::find_if(merged.begin(), merged.end(), matches);
    if (found == merged.end()) {
      merged.push_back(got);
      continue;
    }
    found->inputs.insert(found->inputs.end(), got.inputs.begin(),
                         got.inputs.end());
    found->deltas.insert(found->deltas.end(), got.deltas.begin(),
                         got.deltas.end());
    if (got.bias_sum.defined())
      found->bias_sum = found->bias_sum.defined()
                            ? found->bias_sum + got.bias_sum
                            : got.bias_sum;
  }
  for (const Got& all : merged)
    if (!all.deltas.empty() || all.bias_sum.defined()) add_product(weight, all);
  sites_[weight].stats.gradient_ms += watch.ms();
  stats_.gradient_ms += watch.ms();
}

void FactorReducer::add_product(std::size_t weight, const Got& all) {
  const at::Tensor& parameter = parameters_[weight].tensor;
  const auto device = parameter.device();
  if (all.deltas.empty()) {
    add_to(static_cast<std::size_t>(all.bias),
           (all.bias_sum / group_.size()).to(device));
    return;
  }
  const at::Tensor deltas = (stacked(all.deltas) / group_.size()).to(device);
  const at::Tensor inputs = stacked(all.inputs).to(device);
  if (all.bias >= 0)
    add_to(static_cast<std::size_t>(all.bias),
           all.bias_sum.defined() ? (all.bias_sum / group_.size()).to(device)
                                  : deltas.sum(0));
  at::Tensor& buffer = buffers_[weight];
  const WeightView& view = all.view;
  const bool is_whole = view.in * view.out == parameter.numel();
  if (!buffer.defined() || buffer.use_count() > 1 ||
      buffer.storage().use_count() > 1)
    buffer = at::empty_like(parameter);
  if (!is_made_[weight] && (view.is_lookup || !is_whole)) buffer.zero_();
  const bool adds = is_made_[weight] || !is_whole;
  is_made_[weight] = true;
  if (view.is_lookup) {
    const at::Tensor rows = inputs.squeeze(1);
    const at::Tensor real = (rows >= 0).nonzero().squeeze(1);
    // In the order of rows, on a GPU too.
    part_of(buffer, view)
        .t()
        .index_put_({rows.index_select(0, real)}, deltas.index_select(0, real),
                    /*accumulate=*/true);
    return;
  }
  at::Tensor part = part_of(buffer, view);
  if (adds)
    part.addmm_(deltas.t(), inputs);
  else
    at::mm_out(part, deltas.t(), inputs);
}

void FactorReducer::add_to(std::size_t parameter, const at::Tensor& value) {
  if (is_made_[parameter])
    buffers_[parameter] = buffers_[parameter] + value;
  else
    buffers_[parameter] = value.clone();
  is_made_[parameter] = true;
}

}  // namespace sheaf::parallel
