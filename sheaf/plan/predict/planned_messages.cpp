#include "sheaf/plan/predict/planned_messages.hpp"

namespace sheaf::plan {

PlannedBuckets::PlannedBuckets(const StepProfile& profile,
                               const std::set<std::string>& factor_layers,
                               const BucketOptions& options) {
  const auto& parameters = profile.model.parameters;
  std::vector<BucketItem> items;
  std::vector<std::int64_t> elements;
  std::vector<std::size_t> order;
  for (auto one = parameters.rbegin(); one != parameters.rend(); ++one) {
    if (!factor_layers.contains(one->layer)) order.push_back(items.size());
    const auto bytes = static_cast<std::size_t>(4 * one->elements);
    items.push_back({.bytes = bytes,
                     .goes_alone = goes_alone(bytes, options.is_on_devices,
                                              !options.is_half)});
    elements.push_back(one->elements);
  }
  bucket_of_.assign(items.size(), kNone);
  const auto lists = plan_buckets(items, order, options.caps);
  for (const auto& members : lists) {
    std::vector<std::int64_t> sizes;
    for (const std::size_t i : members) {
      bucket_of_[i] = static_cast<std::int32_t>(buckets_.size());
      sizes.push_back(elements[i]);
    }
    const bool is_last = buckets_.size() + 1 == lists.size();
    const StatusPlace status =
        is_last ? status_place(
                      items[members[0]].goes_alone, /*keeps_zeros=*/true,
                      options.is_on_devices && !options.is_half, options.hosts)
                : StatusPlace::kNone;
    const BlockLayout block = lay_out_block(sizes, status);
    buckets_.push_back({block.elements, members.size()});
    counts_users_ = is_last && !block.status_at;
  }
  parameters_ = static_cast<std::int64_t>(order.size());
}

void PlannedBuckets::complete_gradient() {
  if (complete_ == bucket_of_.size()) return;
  const std::int32_t bucket = bucket_of_[complete_++];
  if (bucket != kNone) --buckets_[static_cast<std::size_t>(bucket)].missing;
}

std::optional<std::int64_t> PlannedBuckets::take_complete() {
  if (next_ == buckets_.size() || buckets_[next_].missing > 0)
    return std::nullopt;
  return take();
}

std::optional<std::int64_t> PlannedBuckets::take() {
  if (next_ == buckets_.size()) return std::nullopt;
  return buckets_[next_++].elements;
}

PlannedParcels::PlannedParcels(const std::vector<FactorLayer>& layers,
                               const ExchangePlan& plan,
                               const FactorScale& scale)
    : costs_(layers, plan, scale) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!has_factors(costs_.route(i))) continue;
    names_.insert(layers[i].name);
    for (std::size_t k = 0; k < layers[i].slots.size(); ++k)
      omitted_[layers[i].slots[k]] = layers[i].gradient_part[k];
  }
  ParcelPlan parcels = costs_.parcels();
  for (Parcels* list : {&parcels.forward, &parcels.backward}) {
    const bool is_backward = list == &parcels.backward;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const FactorLayer& last = layers[(*list)[i].back()];
      parcels_[is_backward ? 2 * last.slots.front() + 1
                           : 2 * last.slots.back()] = i;
    }
    const std::size_t count = list->size();
    directions_.push_back({std::move(*list), std::vector<bool>(count), 0});
  }
}

double PlannedParcels::omitted_part(std::size_t slot) const {
  const auto found = omitted_.find(slot);
  return found == omitted_.end() ? 0 : found->second;
}

double PlannedParcels::gradient_ns() const {
  double ns = 0;
  for (std::size_t i = 0; i < costs_.layers().size(); ++i)
    ns += costs_.gradient_ns(i);
  return ns;
}

void PlannedParcels::complete_side(std::size_t side) {
  const auto found = parcels_.find(side);
  if (found == parcels_.end()) return;
  directions_[side % 2].is_ready[found->second] = true;
}

std::optional<PlannedParcels::Parcel> PlannedParcels::take_ready() {
  for (std::size_t i = 0; i < directions_.size(); ++i)
    if (const Direction& one = directions_[i];
        one.next < one.parcels.size() && one.is_ready[one.next])
      return take_from(i);
  return std::nullopt;
}

std::optional<PlannedParcels::Parcel> PlannedParcels::take() {
  for (std::size_t i = 0; i < directions_.size(); ++i)
    if (directions_[i].next < directions_[i].parcels.size())
      return take_from(i);
  return std::nullopt;
}

PlannedParcels::Parcel PlannedParcels::take_from(std::size_t direction) {
  Direction& one = directions_[direction];
  const auto& layers = one.parcels[one.next++];
  Parcel parcel{.layers = layers.size()};
  for (const std::size_t layer : layers)
    if (direction == 0) {
      parcel.bytes += costs_.forward_bytes(layer);
    } else {
      parcel.bytes += costs_.backward_bytes(layer);
      parcel.compression_ns += costs_.compression_ns(layer);
    }
  return parcel;
}

}  // namespace sheaf::plan
