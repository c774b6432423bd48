#include "sheaf/spatial/split/lent_tiles.hpp"

#include <exception>
#include <mutex>

#include "sheaf/base/log.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"
#include "sheaf/tensor/groups/memory_source.hpp"

namespace sheaf::spatial {
namespace {

halo::Reads reads_of(const at::Tensor& tile) {
  return tensor::is_from_source(tile) ? halo::Reads::kLater
                                      : halo::Reads::kAwaited;
}

void keep_tile_for_ever(const at::Tensor& tile) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<at::Tensor>;
  const std::lock_guard lock(mutex);
  kept.push_back(tile);
}

}  // namespace

// Memory that other ranks may still be reading is never reused, even after an
// error.
LentTiles::~LentTiles() {
  for (const Loan& loan : loans_) try {
      if (std::uncaught_exceptions() == 0)
        loan.exchange->wait_read(loan.handle);
      if (!loan.handle.is_read()) keep_tile_for_ever(loan.tile);
    } catch (const std::exception& error) {
      log_debug("a tile has not been read: {}", error.what());
      keep_tile_for_ever(loan.tile);
    }
}

void LentTiles::take_back() {
  std::erase_if(loans_, [](const Loan& loan) { return loan.handle.is_read(); });
}

LentTiles::Handle LentTiles::start(halo::HaloExchange& exchange,
                                   const at::Tensor& tile) {
  take_back();
  return exchange.start(view_of(tile), reads_of(tile));
}

LentTiles::Handle LentTiles::start_adjoint(halo::HaloExchange& exchange,
                                           const at::Tensor& wanted) {
  take_back();
  return exchange.start_adjoint(view_of(wanted), reads_of(wanted));
}

// Holding the tile also prevents the autograd engine from adding to it in
// place.
void LentTiles::keep(halo::HaloExchange& exchange, const Handle& handle,
                     const at::Tensor& tile) {
  if (!handle.is_read()) loans_.push_back({tile, &exchange, handle});
}

void LentTiles::wait_for(const at::Tensor& tensor) {
  for (const Loan& loan : loans_)
    if (loan.tile.is_alias_of(tensor)) loan.exchange->wait_read(loan.handle);
  take_back();
}

}  // namespace sheaf::spatial
