#pragma once
// The exchanges of a group, each made once and used again for the same layout,
// needs and type of elements.

#include <memory>
#include <span>
#include <vector>

#include "sheaf/halo/halo_exchange.hpp"

namespace sheaf::halo {

class HaloCache {
 public:
  // With a thread that moves messages between hosts on while ranks compute.
  explicit HaloCache(const comm::Group& group);

  // All ranks of the group ask for the same in the same order. The exchange
  // lives as long as the cache.
  HaloExchange& get(const Layout& owners, std::span<const Box> needs,
                    DType dtype);

  // Of all exchanges together.
  HaloCounters counters() const;

 private:
  // Not the plan: two that are the same on this rank may differ on others.
  struct Entry {
    Layout owners;
    std::vector<Box> needs;
    std::unique_ptr<HaloExchange> exchange;
  };

  comm::Group group_;
  std::shared_ptr<Pump> pump_;
  std::vector<Entry> entries_;
};

}  // namespace sheaf::halo
