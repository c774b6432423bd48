#pragma once
// Caches the halo exchanges of a group by tiling, needs and element type.

#include <memory>
#include <span>
#include <vector>

#include "sheaf/halo/halo_exchange.hpp"

namespace sheaf::halo {

// Not thread-safe.
class HaloCache {
 public:
  // The exchanges share a thread, which advances messages between hosts during
  // computation; see Pump.
  explicit HaloCache(const comm::Group& group);

  // All ranks of the group must make the same calls in the same order. The
  // cache owns the exchange. Throws UsageError if the tiling's grid does not
  // have as many ranks as the group.
  HaloExchange& get(const Tiling& owners, std::span<const Box> needs,
                    DType dtype);

  // The sum over all exchanges.
  HaloCounters counters() const;

 private:
  // Keyed by tiling and needs rather than by plan, since plans that are equal
  // on this rank may differ on others.
  struct CachedExchange {
    Tiling owners;
    std::vector<Box> needs;
    std::unique_ptr<HaloExchange> exchange;
  };

  comm::Group group_;
  std::shared_ptr<Pump> pump_;
  std::vector<CachedExchange> exchanges_;
};

}  // namespace sheaf::halo
