#pragma once
// Automatic mixed precision in bf16.

#include <torch/types.h>

namespace sheaf::train {

// While an object exists, this thread's operations on `device` run in bf16 if
// libtorch considers that safe. Does nothing if `is_on` is false.
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
