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
  // Rounding decides the values, so that they cannot be compared.
  bool is_open = false;
};

// What PowerSGD remembers of a matrix.
struct PowerMemory {
  at::Tensor q;
  std::vector<at::Tensor> errors;  // by unit
  double growth = 1;               // the largest so far
  bool is_open = false;            // of values that could not be compared
};

// One exchange of a parameter's gradients.
struct Exchanged {
  std::size_t model = 0;
  // The parameter's among those that required a gradient at the start.
  std::size_t number = 0;
  at::Tensor parameter;
  // Of the units that take part, undefined where there is none.
  std::vector<at::Tensor> gradients;
  int divisor = 1;
  // By how much gradients may differ already, after an exchange in this step;
  // undefined: by nothing.
  at::Tensor before = {};
  // Of the sums that led to the gradients, over the units. A backward() of a
  // graph that was kept is exchanged by itself, so that they are rounded
  // elsewhere than here.
  at::Tensor magnitudes = {};
};

class Average {
 public:
  explicit Average(const Case& one);

  Averaged average(Exchanged given);
  // Before the first parameter of each exchange of a model.
  void begin(std::size_t model) { ++exchanges_[model]; }

 private:
  Averaged plain(const Exchanged& given) const;
  Averaged rounded(const Exchanged& given, at::ScalarType type) const;
  Averaged power(const Exchanged& given);
  PowerMemory& memory_of(const Exchanged& given);
  bool is_compressed(const at::Tensor& parameter) const;

  Case case_;
  std::map<std::size_t, int> exchanges_;  // by model
  std::map<std::pair<std::size_t, std::size_t>, PowerMemory> memories_;
};

}  // namespace differential
