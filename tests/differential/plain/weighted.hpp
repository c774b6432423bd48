#pragma once
// Ranks that count by their rows: the loss of what forward() returns is
// multiplied by rows here x ranks / rows everywhere (docs/dad.md).

#include <vector>

#include "plain/session.hpp"

namespace differential {

// By unit; all 1 where a strategy counts ranks alike.
std::vector<double> weights_of_units(const Case& one, const Item& step);
// Multiplies gradients of outputs instead, in their own type: with autocast
// that is where they are rounded.
Session::Outputs weighted(Session::Outputs outputs, double weight);

}  // namespace differential
