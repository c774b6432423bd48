#include "sheaf/halo/halo_cache.hpp"

#include <algorithm>

#include "sheaf/halo/pump.hpp"

namespace sheaf::halo {

HaloCache::HaloCache(const comm::Group& group)
    : group_(group), pump_(std::make_shared<Pump>()) {}

HaloExchange& HaloCache::get(const Tiling& owners, std::span<const Box> needs,
                             DType dtype) {
  for (CachedExchange& entry : exchanges_)
    if (entry.exchange->dtype() == dtype && entry.owners == owners &&
        std::ranges::equal(entry.needs, needs))
      return *entry.exchange;
  check_fits(owners.grid(), group_.size());
  exchanges_.push_back(
      {owners, std::vector(needs.begin(), needs.end()),
       std::make_unique<HaloExchange>(
           group_, make_plan(owners, needs, group_.rank()), dtype, pump_)});
  return *exchanges_.back().exchange;
}

HaloCounters HaloCache::counters() const {
  HaloCounters sum;
  for (const CachedExchange& entry : exchanges_) {
    const HaloCounters& counters = entry.exchange->counters();
    sum.exchanges += counters.exchanges;
    sum.messages += counters.messages;
    sum.bytes_sent += counters.bytes_sent;
    sum.bytes_in_place += counters.bytes_in_place;
    sum.bytes_read += counters.bytes_read;
    sum.wait_ns += counters.wait_ns;
  }
  return sum;
}

}  // namespace sheaf::halo
