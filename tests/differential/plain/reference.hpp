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
//   f16, bf16  The gradients of the ranks are rounded to the type, with the
//              same bits on both sides, added and divided in f32, and rounded
//              once. Additions in any order and the division make an error of
//              at most e = ranks 2^-24 sum|g| / divisor, taken twice for what
//              is of second order: the result lies between round(mean - e) and
//              round(mean + e), one number for nearly all elements, and else
//              two neighbors. With join() over some ranks the average over all
//              is rounded, multiplied by ranks / divisor and rounded again;
//              with the reference's that makes three roundings, each by at
//              most u = 2^-11, 2^-8 of the value, or by half of f16's least
//              distance, 2^-25, the first one times ranks / divisor.
//   PowerSGD   The projection of the average onto the range of P, in f64. A
//              relative error of P changes it by that times the condition
//              number of P, of which the largest so far is taken. The error is
//              taken as 1e-13: roundings of 1e-16, and those of what earlier
//              exchanges have left in the memory.
//              Directions of P below 1e-6 of the largest are rounding: the
//              result may have any others instead. Where those could change it
//              by more than 1e-7, values must be finite, and are not compared,
//              nor are those that follow from what PowerSGD remembers then.
//   f32        Autocast and precision plans compute the same bits on both
//              sides; averages differ by the order of the additions: ranks
//              roundings on each side, and as many where a graph is used twice
//              and exchanged twice, each of 2^-24 of the sum of magnitudes.
//
// A second exchange in a step adds to the slack of the first. Weights then
// differ by at most the slack times the learning rate.

#include "plain/session.hpp"

namespace differential {

// One record for each rank. `tested`: what was found, for strategies that
// round; else it is not looked at.
std::vector<Record> reference(const Case& one,
                              const std::vector<Record>& tested);

// Whether results are rounded to less than f64.
bool is_rounded(const Case& one);

}  // namespace differential
