#pragma once
// Closed-form costs of the collectives, in microseconds. Symbols used in the
// formulas:
//   P  ranks              S  bytes of the largest buffer on one rank: the
//                            buffer of all-reduce, broadcast and reduce; the
//                            P blocks together of the others
//   a  latency of a message           B  bandwidth of a rank, per direction
//   o  sender overhead per message    R  bytes per time that a core adds
//   M  memory bandwidth of a host     L  ceil(log2 P)
//   share = (P-1)/P, the part of a buffer that belongs to other ranks
// A group of one rank costs 0.

#include <limits>
#include <vector>

#include "sheaf/topo/algorithm.hpp"
#include "sheaf/topo/dims.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::topo {

inline constexpr double kFree = std::numeric_limits<double>::infinity();

// Ranks that are all connected by the same kind of link.
struct Flat {
  int ranks = 1;
  Link link;                  // a and B
  double reduce_gbs = kFree;  // R
  double message_us = 0;      // o
};

// Messages between ranks. 2(P-1) a + 2 share S/B + share S/R.
double ring_all_reduce_us(const Flat& flat, double bytes);
// 2L a + 2 share S/B + share S/R. If P is not a power of two, the ranks above
// the largest power of two first send their data to other ranks and receive the
// result at the end: 2(a + S/B) + S/R more, and P in the formula is that power
// of two.
double halving_all_reduce_us(const Flat& flat, double bytes);
// Up and down a binomial tree: 2L (a + S/B) + L S/R.
double tree_all_reduce_us(const Flat& flat, double bytes);

double ring_reduce_scatter_us(const Flat& flat, double bytes);
double halving_reduce_scatter_us(const Flat& flat, double bytes);
double ring_all_gather_us(const Flat& flat, double bytes);
double halving_all_gather_us(const Flat& flat, double bytes);

double tree_broadcast_us(const Flat& flat, double bytes);  // L (a + S/B)
// Scatter by a tree, then all-gather by a ring: (L + P-1) a + 2 share S/B.
double ring_broadcast_us(const Flat& flat, double bytes);
// The broadcasts in reverse, plus L S/R (tree) or share S/R (ring).
double tree_reduce_us(const Flat& flat, double bytes);
double ring_reduce_us(const Flat& flat, double bytes);

// The root receives from all (or sends to all): a + (P-2) o + share S/B.
double linear_gather_us(const Flat& flat, double bytes);
double tree_gather_us(const Flat& flat, double bytes);  // L a + share S/B
// P-1 pairwise rounds: a + (P-2) max(a, o) + share S/B.
double pairwise_all_to_all_us(const Flat& flat, double bytes);
double tree_barrier_us(const Flat& flat);  // dissemination: L a

// Shared memory of one host: two barriers of L a each (one for the collective
// barrier), plus the maximum of one rank's work and the host's traffic / M:
//                    a rank's work         the host's traffic
//   all-reduce       S/R + S/B             2PS
//   reduce           S/R + S/P/B           PS + S
//   reduce-scatter   S/R + S/P/B           PS + S
//   broadcast        S/B                   2(P-1)S
//   all-gather       share S/B             2(P-1)S
//   all-to-all       share S/B             2(P-1)S
//   gather, scatter  S/P/B                 2 share S
// Inputs outside the arena are first copied into it, and all-reduce copies its
// result back. Additional work and traffic: all-reduce 2S/B and 3PS; reduce,
// reduce-scatter and all-to-all S/B and 2PS; broadcast and scatter S/B and 2S;
// gather and all-gather S/P/B and 2S.
double shared_us(Collective collective, const Machine& machine, int ranks,
                 double bytes, bool is_in_arena = true);

// One tier of a hierarchy. `link` is the egress of one group in this tier: of a
// rank in tier 0, of a host in tier 1, of a rack in tier 2.
struct Tier {
  int size = 1;
  Link link;
  // Tiers of the same fabric share its links, so their times add up.
  int fabric = 0;
};

// Tier 0 uses shared memory, limited by the memory bandwidth of a host; the
// others use the network interfaces of the hosts.
std::vector<Tier> tiers_of(const Machine& machine, const Dims& dims);

// Reduce-scatter from the innermost tier outward, then all-gather inward. In
// tier i each rank holds only 1/(p0..p(i-1)) of the buffer, so that
//   T_i = 2(p_i-1) a_i + 2(p_i-1)/p_i S/G_i + (p_i-1)/p_i S/(p0..p(i-1))/R
// where G_i is the egress of a whole group. Tiers run one after the other:
// sum T_i.
double tiers_sum_us(const std::vector<Tier>& tiers, double bytes,
                    double reduce_gbs = kFree);
// Pipelined over `segments` pieces of the buffer: a tier works on one piece
// while the next tier works on the previous piece. With t_i = T_i(S/segments):
//   sum t_i + (segments-1) max over fabrics of (sum of the fabric's t_i).
double tiers_pipelined_us(const std::vector<Tier>& tiers, double bytes,
                          int segments, double reduce_gbs = kFree);

// Lower bound for any all-reduce by messages, without latency:
// max over tiers of 2(q-1)/q S/G, since each of q groups with egress G must
// receive the data of the others. `links` has the egress of a group for each
// dimension.
double tier_bound_us(const Dims& dims, const std::vector<Link>& links,
                     double bytes);
// Lower bound in shared memory: every input is read and every output written
// once, 2PS/M.
double shared_bound_us(double memory_gbs, int ranks, double bytes);

}  // namespace sheaf::topo
