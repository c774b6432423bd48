#pragma once
// Tiles that neighbors read in place. Ranks do not wait for these reads: a tile
// is kept until all neighbors have read it, and only writes to it wait.

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

  // HaloExchange::start() and its adjoint. Results of operations are lent. For
  // other tiles, which users may modify at any time, finish() waits.
  Handle start(halo::HaloExchange& exchange, const at::Tensor& tile);
  Handle start_adjoint(halo::HaloExchange& exchange, const at::Tensor& wanted);
  // Must be called after finish().
  void keep(halo::HaloExchange& exchange, const Handle& handle,
            const at::Tensor& tile);

  // Returns when no rank reads the tensor's memory any more.
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
