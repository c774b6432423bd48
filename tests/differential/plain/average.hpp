#pragma once
// Computes the average of the gradients of all units.

#include <map>
#include <string>
#include <vector>

#include "plain/network.hpp"

namespace differential {

struct Averaged {
  at::Tensor value;
  at::Tensor slack;  // undefined: none
  // Rounding determines the values, so that they cannot be compared.
  bool is_open = false;
};

// The state of PowerSGD for a matrix.
struct PowerMemory {
  at::Tensor q;
  std::vector<at::Tensor> errors;  // by unit
  double growth = 1;               // the largest so far
  // Whether it depends on values that could not be compared.
  bool is_open = false;
};

// One exchange of a parameter's gradients.
struct Exchanged {
  std::size_t model = 0;
  // The parameter's index among those that required a gradient at the start.
  std::size_t number = 0;
  at::Tensor parameter;
  // The gradients of the participating units; undefined for a unit without one.
  std::vector<at::Tensor> gradients;
  int divisor = 1;
  // By how much the gradients may already differ, after an exchange in this
  // step; undefined: not at all.
  at::Tensor before = {};
  // Magnitudes of the sums that led to the gradients, over the units. A
  // backward() of a retained graph is exchanged separately, so that it is
  // rounded at another point than here.
  at::Tensor magnitudes = {};
};

class Average {
 public:
  explicit Average(const Case& one);

  Averaged average(Exchanged given);
  // Called before the first parameter of each exchange of a model.
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
