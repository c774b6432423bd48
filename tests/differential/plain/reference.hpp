#pragma once
// What a case must give, computed by one process with libtorch alone: each
// unit's share, one after the other, and then the average of the shares as the
// documentation states it.
//
// Exact strategies are compared with 1e-9 of the largest element; see
// compare.hpp. Others round, and one rounding that falls to the other side
// changes all that follows. Their reference starts each step from the weights
// that were found at the end of the step before, so that differences do not
// add up, and gives each gradient a slack:
//
//   f16, bf16  u = 2^-11, 2^-8: the gradients of the ranks are rounded to the
//              type (the same on both sides), their sum is taken in f32 and
//              rounded once per host and per step between hosts, at most
//              ranks + 1 times, each by at most u of the sum of magnitudes.
//   PowerSGD   The same steps in f64. The columns of P are made orthonormal,
//              which magnifies rounding by the condition number of P.
//   f32        Autocast and precision plans compute the same bits on both
//              sides; averages differ by the order of the additions:
//              2 ranks 2^-24 of the sum of magnitudes.
//
// Weights then differ by at most the slack times the learning rate.

#include "plain/session.hpp"

namespace differential {

// One record for each rank. `tested`: what was found, for strategies that
// round; else it is not looked at.
std::vector<Record> reference(const Case& one,
                              const std::vector<Record>& tested);

// Whether results are rounded to less than f64.
bool is_rounded(const Case& one);

}  // namespace differential
