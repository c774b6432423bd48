#pragma once
// Tiles that neighbours read in place. Ranks do not wait for that: a tile is
// kept until all have read it, and who would write it waits.

#include <torch/types.h>

#include <vector>

#include "sheaf/halo/halo_exchange.hpp"

namespace sheaf::spatial {

class LentTiles {
 public:
  using Handle = halo::HaloExchange::Handle;

  LentTiles() = default;
  ~LentTiles();
  LentTiles(const LentTiles&) = delete;
  LentTiles& operator=(const LentTiles&) = delete;

  // HaloExchange::start() and its adjoint. What operations have made is lent;
  // for other tiles, which users may write as they like, finish() waits.
  Handle start(halo::HaloExchange& exchange, const at::Tensor& tile);
  Handle start_adjoint(halo::HaloExchange& exchange, const at::Tensor& wanted);
  // After finish().
  void keep(halo::HaloExchange& exchange, const Handle& handle,
            const at::Tensor& tile);

  // Returns when nobody reads the tensor's memory any more.
  void wait_for(const at::Tensor& tensor);
  bool is_empty() const { return loans_.empty(); }

 private:
  struct Loan {
    at::Tensor tile;
    halo::HaloExchange* exchange;
    Handle handle;
  };
  void take_back();

  std::vector<Loan> loans_;
};

}  // namespace sheaf::spatial
