#pragma once
// Algorithms between hosts are lists of steps. A step sends one range of the
// buffer and receives another; the next step begins when both are done. The
// list is made by one file per algorithm and executed by LaneTask.
//
// Participants are numbered 0 .. size-1; `me` is one of them; ranges are in
// elements. Every element is finished (reduced for the last time) at exactly
// one participant, so that all participants end with the same bits.

#include <cstddef>
#include <vector>

#include "sheaf/comm/choice/pipeline_plan.hpp"
#include "sheaf/topo/dims.hpp"

namespace sheaf::comm {

struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
};

struct Step {
  int send_to = -1;  // -1: sends nothing
  Range sent{};
  int receive_from = -1;
  Range received{};
  bool adds = false;        // the received range is reduced into the buffer
  bool finishes = false;    // it is the last reduction: averages divide here
  bool is_partial = false;  // the sent range is not finished yet
  int tier = 0;             // set by tiers_schedule(), for reports
};

using Schedule = std::vector<Step>;

// Chunk `index` of a range divided into `chunks` chunks, which differ by at
// most one element.
Range chunk_of(Range range, int index, int chunks);

// All-reduce.
Schedule ring_schedule(int size, int me, Range range);
Schedule halving_schedule(int size, int me, Range range);
Schedule tree_schedule(int size, int me, Range range);

// All-reduce tier by tier: reduce-scatter from the first tier to the last, then
// all-gather in reverse order. participant = i0 + d0 * (i1 + d1 * ...). One
// algorithm per tier; a tree is possible in the last tier only.
Schedule tiers_schedule(const std::vector<int>& dims,
                        const std::vector<TierAlgorithm>& algorithms, int me,
                        Range range);

// Reduce to the root, and broadcast from the root, by a binomial tree.
Schedule reduce_schedule(int size, int me, int root, Range range);
Schedule broadcast_schedule(int size, int me, int root, Range range);

// The two halves of an all-reduce over `members`, a list of participants; `me`
// is the index of this participant in it. After the reduce-scatter, this
// participant holds the result of the range `owned`.
struct Scattered {
  Schedule steps;
  Range owned;
};
Scattered ring_reduce_scatter(const std::vector<int>& members, int me,
                              Range range, bool finishes);
Schedule ring_all_gather(const std::vector<int>& members, int me, Range range);
// The number of members must be a power of two.
Scattered halving_reduce_scatter(const std::vector<int>& members, int me,
                                 Range range, bool finishes);
Schedule doubling_all_gather(const std::vector<int>& members, int me,
                             Range range);

}  // namespace sheaf::comm
