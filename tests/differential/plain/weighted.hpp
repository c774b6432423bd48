#pragma once
// Weights of ranks by rows: the loss of the outputs of forward() is multiplied
// by rows of this rank x ranks / rows of all ranks (docs/explanation/dad.md).

#include <vector>

#include "plain/session.hpp"

namespace differential {

// By unit; all 1 if a strategy gives all ranks equal weight.
std::vector<double> weights_of_units(const Case& one, const Item& step);
// Multiplies the gradients of outputs instead, in their type: with autocast,
// they are rounded there.
Session::Outputs weighted(Session::Outputs outputs, double weight);

}  // namespace differential
