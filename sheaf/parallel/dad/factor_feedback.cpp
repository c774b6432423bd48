// The rests of low-rank factors in checkpoints. Entries: "feedback/ranks", the
// number of ranks, then "feedback/RANK/N/block", "…/inputs" and "…/deltas".
// RANK is "sum" for the rest of the sum on the root.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/parallel/dad/factor_exchange.hpp"

namespace sheaf::parallel {
namespace {

const std::string kPrefix = "feedback/";
constexpr const char* kRanks = "ranks";
constexpr const char* kSum = "sum";

FactorParcel parcel_of(const std::map<BlockKey, Factors>& rests) {
  FactorParcel parcel;
  for (const auto& [key, rest] : rests) {
    if (!rest.inputs.defined() || rest.inputs.size(0) == 0) continue;
    FactorPart part;
    part.block = key;
    part.factors = rest;
    parcel.parts.push_back(std::move(part));
  }
  return parcel;
}

void append(NamedTensors& list, const std::string& rank,
            const FactorParcel& parcel) {
  for (std::size_t i = 0; i < parcel.parts.size(); ++i) {
    const FactorPart& part = parcel.parts[i];
    const std::string name = concat(kPrefix, rank, "/", i, "/");
    list.emplace_back(name + "block", at::tensor(numbers_of(part.block)));
    list.emplace_back(name + "inputs", part.factors.inputs);
    list.emplace_back(name + "deltas", part.factors.deltas);
  }
}

BlockKey key_of(const at::Tensor& numbers) {
  const at::Tensor plain = numbers.to(at::kCPU, at::kLong).contiguous();
  const auto* begin = plain.data_ptr<std::int64_t>();
  return block_key({begin, begin + plain.numel()});
}

}  // namespace

NamedTensors FactorExchange::gather_feedback() const {
  FactorParcel mine = parcel_of(own_.kept);
  const FactorMessage message = encode_parcel(mine, {});
  const auto headers = share_numbers(group_, options_.where, message.header);
  const auto bytes = gather_bytes(group_, message.bytes, payloads_of(headers));
  NamedTensors list;
  if (group_.rank() != 0) return list;
  list.emplace_back(kPrefix + kRanks, at::tensor(std::int64_t{group_.size()}));
  for (std::size_t r = 0; r < headers.size(); ++r)
    append(list, concat(r), decode_parcel({headers[r], bytes[r]}, {}));
  append(list, kSum, parcel_of(sums_.kept));
  return list;
}

// If S ranks saved the state and T ranks load it, the factor T / S keeps the
// average.
void FactorExchange::load_feedback(NamedTensors saved) {
  own_ = {};
  sums_ = {};
  std::erase_if(saved, [](const auto& entry) {
    return !entry.first.starts_with(kPrefix);
  });
  if (saved.empty() || saved[0].first != kPrefix + kRanks) return;
  SHEAF_CHECK(saved.size() % 3 == 1, "the saved state of DadParallel has ",
              saved.size(), " tensors; at least one is missing");
  const double scale = group_.size() / saved[0].second.item<double>();
  for (std::size_t i = 1; i < saved.size(); i += 3) {
    const std::string place = saved[i].first.substr(kPrefix.size());
    const std::string rank = place.substr(0, place.find('/'));
    const bool is_sum = rank == kSum;
    const auto number = is_sum ? 0 : parse_count(rank);
    SHEAF_CHECK(number, "the saved state of DadParallel has the tensor '",
                printable(saved[i].first), "', which names no rank");
    const int owner = *number % group_.size();
    if (owner != group_.rank()) continue;
    Factors& rest = (is_sum && options_.is_two_way ? sums_ : own_)
                        .kept[key_of(saved[i].second)];
    append(rest, {saved[i + 1].second.clone(), saved[i + 2].second * scale});
  }
}

}  // namespace sheaf::parallel
