#pragma once
// Records what operations exchange, for `sheaf train --explain`.

#include <torch/types.h>

#include <string>

#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {

// While it exists, notes contain the name of this call.
class CallName {
 public:
  explicit CallName(Call& call) : before_(current_) { current_ = &call; }
  ~CallName() { current_ = before_; }
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;

  // "convolution of 0.weight"; "" outside of calls.
  static std::string text(const Tiles& tiles);

 private:
  Call* before_;
  static thread_local Call* current_;
};

// The maximum that a rank needs beyond its tile, low and high, by axis: "0+1
// 2+2". Negative if every rank's tile is cropped.
std::string widest_halo(const Split& split, const Needs& needs);

// These have no effect without a listener.
void note_halo(const Split& split, const Needs& needs,
               const halo::HaloPlan& plan, const at::Tensor& plain,
               const std::string& operation, std::int64_t bytes_in_place,
               bool is_overlapped);
void note_sum(const Tiles& tiles, const at::Tensor& summed,
              const std::string& operation);
void note_sums(const Tiles& tiles, std::int64_t sums, std::int64_t bytes,
               const std::string& operation);

}  // namespace sheaf::spatial
