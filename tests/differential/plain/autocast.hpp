#pragma once
// Enables libtorch's autocast to bf16 while this object exists.

#include <torch/torch.h>

namespace differential {

class Autocast {
 public:
  Autocast(at::DeviceType device, bool is_on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool is_on_;
};

}  // namespace differential
