#pragma once
// The expected results of a case, computed by one process with libtorch alone:
// the share of each unit, one after the other, and then the average of the
// shares as documented.
//
// Exact strategies are compared with a tolerance of 1e-9 of the largest
// element; see compare.hpp. Others round, and a single value rounded in the
// other direction changes all later results. Their reference starts each step
// from the weights that were found at the end of the previous step, so that
// differences do not accumulate, and gives each gradient a slack:
//
//   f16, bf16  The gradients of the ranks are rounded to the type, with the
//              same bits on both sides, added and divided in f32, and rounded
//              once. Additions in any order and the division cause an error of
//              at most e = ranks 2^-24 sum|g| / divisor, doubled to cover
//              second-order terms: the result lies between round(mean - e) and
//              round(mean + e), which is one number for nearly all elements,
//              and otherwise two neighbors. With join() over some ranks, the
//              average over all is rounded, multiplied by ranks / divisor and
//              rounded again; with the rounding of the reference these are
//              three roundings, each by at most u = 2^-11, 2^-8 of the value,
//              or by half of f16's smallest step, 2^-25, the first one times
//              ranks / divisor.
//   PowerSGD   The projection of the average onto the range of P, in f64. A
//              relative error of P changes it by that error times the condition
//              number of P, of which the largest so far is used. The error is
//              assumed to be 1e-13: roundings of 1e-16, and those that earlier
//              exchanges have left in the state.
//              Directions of P below 1e-6 of the largest are rounding errors:
//              the result may have any others instead. If these could change it
//              by more than 1e-7, values must be finite but are not compared,
//              nor are later values that depend on the state of PowerSGD.
//   f32        Autocast and precision plans compute the same bits on both
//              sides; averages differ by the order of the additions: as many
//              roundings as ranks on each side, and again as many if a graph is
//              used and exchanged twice, each of 2^-24 of the magnitudes' sum.
//
// A second exchange in a step adds to the slack of the first. Weights then
// differ by at most the slack times the learning rate.

#include "plain/session.hpp"

namespace differential {

// Returns one record for each rank. `tested`: the results found, for strategies
// that round; otherwise ignored.
std::vector<Record> reference(const Case& one,
                              const std::vector<Record>& tested);

// Whether results are rounded to less than f64.
bool is_rounded(const Case& one);

}  // namespace differential
