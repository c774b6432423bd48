#include "sheaf/parallel/dad/factor_exchange.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {
namespace {

std::vector<FactorParcel> decode_all(const std::vector<Numbers>& headers,
                                     const std::vector<at::Tensor>& bytes,
                                     const WireFormat& format) {
  std::vector<FactorParcel> parcels;
  for (std::size_t r = 0; r < headers.size(); ++r)
    parcels.push_back(decode_parcel({headers[r], bytes[r]}, format));
  return parcels;
}

// Sends the root's headers of all ranks to all ranks.
void broadcast_headers(const comm::Group& group, std::vector<Numbers>& all) {
  std::vector<std::int64_t> sizes;
  Numbers numbers;
  for (const Numbers& one : all) {
    sizes.push_back(static_cast<std::int64_t>(one.size()));
    numbers.insert(numbers.end(), one.begin(), one.end());
  }
  comm::broadcast(group, sizes, {.name = "sizes of headers"}).wait();
  numbers.resize(static_cast<std::size_t>(
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})));
  comm::broadcast(group, numbers, {.name = "headers of the sum"}).wait();
  auto at = numbers.begin();
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r].assign(at, at + sizes[r]);
    at += sizes[r];
  }
}

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + b;
}

}  // namespace

plan::Route exchange_of(Route route) {
  switch (route) {
    case Route::kDad:
      return plan::Route::kDad;
    case Route::kEdad:
      return plan::Route::kEdad;
    case Route::kRankDad:
      return plan::Route::kRankDad;
    case Route::kGradient:
      break;
  }
  return plan::Route::kGradients;
}

FactorExchange::FactorExchange(const comm::Group& group,
                               std::vector<Route> routes,
                               FactorExchangeOptions options)
    : group_(group), routes_(std::move(routes)), options_(std::move(options)) {
  const LowRankOptions& wanted = options_.low_rank;
  has_rests_ = wanted.feedback_rows > 0 && wanted.power_iterations == 0 &&
               std::count(routes_.begin(), routes_.end(), Route::kRankDad) > 0;
}

void FactorExchange::begin_pass(const at::Device& device) {
  device_ = device.is_cpu() ? -1 : std::max<int>(0, device.index());
  identity_ = product_identity(device_);
}

void FactorExchange::end_pass() {
  if (are_finite_)
    for (Feedback* one : {&own_, &sums_})
      for (auto& [block, rest] : one->next) one->kept[block] = std::move(rest);
  forget_pass();
}

void FactorExchange::forget_pass() {
  own_.next.clear();
  sums_.next.clear();
  are_finite_ = true;
}

bool FactorExchange::is_low_rank(const BlockKey& block) const {
  return routes_[static_cast<std::size_t>(block.weight)] == Route::kRankDad &&
         !block.view.is_lookup;
}

void FactorExchange::reduce(FactorPart& part, Feedback& feedback) {
  const LowRankOptions& wanted = options_.low_rank;
  const Factors full{part.factors.inputs.to(at::kCPU),
                     part.factors.deltas.to(at::kCPU)};
  if (wanted.power_iterations > 0) {
    part.factors = power_iteration(full, wanted.rank, wanted.power_iterations,
                                   wanted.tolerance, seed_++);
    return;
  }
  if (!has_rests_) {
    part.factors = low_rank(full, wanted, nullptr);
    return;
  }
  // Copies only the tensor handles: the rest is replaced, not modified.
  Factors& rest = feedback.next.emplace(part.block, feedback.kept[part.block])
                      .first->second;
  part.factors = low_rank(full, wanted, &rest);
}

std::vector<FactorParcel> FactorExchange::share(FactorParcel& mine) {
  mine.identity = identity_;
  auto parcels = share_all(mine);
  compare_identities(parcels);
  if (has_rests_) check_finite(parcels);
  return parcels;
}

// All ranks reach the same result.
void FactorExchange::compare_identities(std::vector<FactorParcel>& parcels) {
  const auto is_like_first = [&](const FactorParcel& one) {
    return one.identity == parcels[0].identity;
  };
  if (std::all_of(parcels.begin(), parcels.end(), is_like_first)) return;
  for (FactorParcel& parcel : parcels)
    for (FactorPart& part : parcel.parts) part.needs_portable = true;
  if (std::exchange(has_warned_, true)) return;
  const auto texts = share_texts(group_, describe_products(device_));
  const auto other = static_cast<std::size_t>(
      std::find_if_not(parcels.begin(), parcels.end(), is_like_first) -
      parcels.begin());
  if (group_.rank() == 0)
    log_warn(
        "libtorch may round matrix products differently on ranks 0 and {}, "
        "which have ({}) and ({}); gradients are computed from factors with "
        "loops that give the same bits on all ranks, which takes about twice "
        "as long. To avoid this, use the same number of threads and the same "
        "libraries on all ranks",
        other, texts[0], texts[other]);
}

void FactorExchange::check_finite(const std::vector<FactorParcel>& parcels) {
  for (const FactorParcel& parcel : parcels)
    for (const FactorPart& part : parcel.parts)
      for (const at::Tensor& one :
           {part.factors.inputs, part.factors.deltas, part.bias_sum})
        if (one.defined() && one.is_floating_point() &&
            !at::isfinite(one).all().item<bool>())
          are_finite_ = false;
}

std::vector<FactorParcel> FactorExchange::share_all(FactorParcel& mine) {
  for (FactorPart& part : mine.parts) {
    if (!is_low_rank(part.block)) continue;
    if (part.block.bias >= 0) part.bias_sum = part.factors.deltas.sum(0);
    reduce(part, own_);
  }
  const FactorMessage message = encode_parcel(mine, options_.wire);
  const auto headers = share_numbers(group_, options_.where, message.header);
  if (options_.is_two_way) return through_root(headers, message.bytes);
  auto parcels = decode_all(
      headers,
      share_bytes(group_, options_.where, message.bytes, payloads_of(headers)),
      options_.wire);
  for (FactorPart& part :
       parcels[static_cast<std::size_t>(group_.rank())].parts)
    part.bytes = 0;
  return parcels;
}

std::vector<FactorParcel> FactorExchange::through_root(
    const std::vector<Numbers>& headers, const at::Tensor& mine) {
  const auto is_root = group_.rank() == 0;
  const auto pieces =
      // Complete on the root only.
      gather_bytes(group_, mine, payloads_of(headers));
  std::vector<FactorMessage> sums(headers.size());
  std::vector<FactorParcel> parcels;
  if (is_root) {
    parcels = decode_all(headers, pieces, options_.wire);
    merge(parcels);
    for (std::size_t r = 0; r < sums.size(); ++r) {
      // Copied, to keep the numbers of received bytes.
      FactorParcel copy = parcels[r];
      sums[r] = encode_parcel(copy, options_.wire);
    }
  }
  std::vector<Numbers> merged;
  std::vector<at::Tensor> bytes;
  for (const FactorMessage& one : sums) {
    merged.push_back(one.header);
    bytes.push_back(one.bytes);
  }
  broadcast_headers(group_, merged);
  const auto sizes = payloads_of(merged);
  at::Tensor all =
      is_root ? at::cat(bytes)
              : at::empty({static_cast<std::int64_t>(std::accumulate(
                              sizes.begin(), sizes.end(), std::size_t{0}))},
                          at::kByte);
  if (all.numel() > 0)
    tensor::broadcast(group_, all, {.name = "the sum"}).wait();
  // Rounded by the wire format, on the root too.
  auto rounded = decode_all(merged, split_bytes(all, sizes), options_.wire);
  if (is_root)
    for (std::size_t r = 0; r < rounded.size(); ++r)
      for (std::size_t i = 0; i < rounded[r].parts.size(); ++i)
        rounded[r].parts[i].bytes = parcels[r].parts[i].bytes;
  return rounded;
}

// Merges the low-rank parts of all parcels into rank 0's parcel, one part per
// block. The byte counts become those received from other ranks.
void FactorExchange::merge(std::vector<FactorParcel>& parcels) {
  std::map<BlockKey, FactorPart> sums;
  for (std::size_t r = 0; r < parcels.size(); ++r) {
    std::vector<FactorPart> kept;
    for (FactorPart& part : parcels[r].parts) {
      if (r == 0) part.bytes = 0;
      if (!is_low_rank(part.block)) {
        kept.push_back(std::move(part));
        continue;
      }
      FactorPart& sum = sums[part.block];
      sum.block = part.block;
      append(sum.factors, part.factors);
      sum.bias_sum = sum_of(sum.bias_sum, part.bias_sum);
      sum.bytes += part.bytes;
    }
    parcels[r].parts = std::move(kept);
  }
  for (auto& [key, sum] : sums) {
    if (sum.factors.deltas.defined()) reduce(sum, sums_);
    parcels[0].parts.push_back(std::move(sum));
  }
}

}  // namespace sheaf::parallel
