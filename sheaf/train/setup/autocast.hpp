#pragma once
// Lower precision where libtorch knows it to be safe.

#include <torch/types.h>

namespace sheaf::train {

// While it lives, this thread's operations on `device` that can be done in
// bf16 are. With `is_on` false it does nothing.
class Autocast {
 public:
  Autocast(torch::DeviceType device, bool is_on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool is_on_;
};

}  // namespace sheaf::train
