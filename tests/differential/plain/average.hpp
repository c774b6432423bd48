#pragma once
// How the gradients of all units become one.

#include <map>
#include <string>
#include <vector>

#include "plain/network.hpp"

namespace differential {

struct Averaged {
  at::Tensor value;
  at::Tensor slack;  // undefined: none
};

// What PowerSGD remembers of a matrix.
struct PowerMemory {
  at::Tensor q;
  std::vector<at::Tensor> errors;  // by unit
};

class Average {
 public:
  explicit Average(const Case& one);

  // One exchange of a model's parameter; gradients are of the units that take
  // part, undefined where there is none. `number` is the parameter's among
  // those that required a gradient at the start.
  Averaged average(std::size_t model, std::size_t number,
                   const at::Tensor& parameter,
                   const std::vector<at::Tensor>& gradients, int divisor);
  // Before the first parameter of each exchange of a model.
  void begin(std::size_t model) { ++exchanges_[model]; }

 private:
  Averaged plain(const std::vector<at::Tensor>& gradients, int divisor) const;
  Averaged rounded(const std::vector<at::Tensor>& gradients, int divisor,
                   at::ScalarType type) const;
  Averaged power(std::size_t model, std::size_t number,
                 const std::vector<at::Tensor>& gradients, int divisor);
  bool is_compressed(const at::Tensor& parameter) const;

  Case case_;
  std::map<std::size_t, int> exchanges_;  // by model
  std::map<std::pair<std::size_t, std::size_t>, PowerMemory> memories_;
};

}  // namespace differential
