#pragma once
// Closed-form cost of the collectives, in microseconds. Words used in the
// formulas:
//   P  ranks              S  bytes of the largest buffer on one rank: the
//                            buffer of all-reduce, broadcast and reduce; the
//                            P blocks together of the others
//   a  latency of a message           B  bandwidth of a rank, each way
//   o  sender busy per message        R  bytes per time that a core adds
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

// Ranks that are all joined by the same kind of link.
struct Flat {
  int ranks = 1;
  Link link;                  // a and B
  double reduce_gbs = kFree;  // R
  double message_us = 0;      // o
};

// Messages between ranks. 2(P-1) a + 2 share S/B + share S/R.
double ring_all_reduce_us(const Flat& flat, double bytes);
// 2L a + 2 share S/B + share S/R. Where P is not a power of two, the ranks
// above it first fold into others and are served last: 2(a + S/B) + S/R more,
// the rest being a power of two.
double halving_all_reduce_us(const Flat& flat, double bytes);
// Up and down a binomial tree: 2L (a + S/B) + L S/R.
double tree_all_reduce_us(const Flat& flat, double bytes);

double ring_reduce_scatter_us(const Flat& flat, double bytes);
double halving_reduce_scatter_us(const Flat& flat, double bytes);
double ring_all_gather_us(const Flat& flat, double bytes);
double halving_all_gather_us(const Flat& flat, double bytes);

double tree_broadcast_us(const Flat& flat, double bytes);  // L (a + S/B)
// Scatter by a tree, all-gather by a ring: (L + P-1) a + 2 share S/B.
double ring_broadcast_us(const Flat& flat, double bytes);
// The broadcast backwards, plus L S/R and share S/R.
double tree_reduce_us(const Flat& flat, double bytes);
double ring_reduce_us(const Flat& flat, double bytes);

// The root receives from all (or sends to all): a + (P-2) o + share S/B.
double linear_gather_us(const Flat& flat, double bytes);
double tree_gather_us(const Flat& flat, double bytes);  // L a + share S/B
// P-1 rounds of pairs: a + (P-2) max(a, o) + share S/B.
double pairwise_all_to_all_us(const Flat& flat, double bytes);
double tree_barrier_us(const Flat& flat);  // dissemination: L a

// Shared memory of one host: two barriers of L a each (one for the barrier
// itself), and the larger of one rank's work and of the host's traffic / M:
//                    a rank's work         the host's traffic
//   all-reduce       S/R + S/B             2PS
//   reduce           S/R + S/P/B           PS + S
//   reduce-scatter   S/R + S/P/B           PS + S
//   broadcast        S/B                   2(P-1)S
//   all-gather       share S/B             2(P-1)S
//   all-to-all       share S/B             2(P-1)S
//   gather, scatter  S/P/B                 2 share S
// Inputs outside the arena are first copied into it, and all-reduce copies its
// result out: all-reduce 2S/B and 3PS more; reduce, reduce-scatter and
// all-to-all S/B and 2PS; broadcast and scatter S/B and 2S; gather and
// all-gather S/P/B and 2S.
double shared_us(Collective collective, const Machine& machine, int ranks,
                 double bytes, bool is_in_arena = true);

// One tier of a hierarchy. `link` is the egress of a group of this tier: of
// one rank in tier 0, of one host in tier 1, of one rack in tier 2.
struct Tier {
  int size = 1;
  Link link;
  // Tiers of one fabric share the same wires: their times add.
  int fabric = 0;
};

// Tier 0 over shared memory, within what the memory of a host allows; the
// others over the hosts' network interfaces.
std::vector<Tier> tiers_of(const Machine& machine, const Dims& dims);

// Reduce-scatter from the inside out, all-gather from the outside in; in tier
// i only 1/(p0..p(i-1)) of the buffer is left to each rank, so that
//   T_i = 2(p_i-1) a_i + 2(p_i-1)/p_i S/G_i + (p_i-1)/p_i S/(p0..p(i-1))/R
// where G_i is the egress of a whole group. One tier after the other: sum T_i.
double tiers_sum_us(const std::vector<Tier>& tiers, double bytes,
                    double reduce_gbs = kFree);
// The buffer in `segments` pieces, a tier working on one piece while the next
// tier works on the piece before: with t_i = T_i(S/segments),
//   sum t_i + (segments-1) max over fabrics of (sum of the fabric's t_i).
double tiers_pipelined_us(const std::vector<Tier>& tiers, double bytes,
                          int segments, double reduce_gbs = kFree);

// Bounds that no all-reduce by messages can beat; latency is left out.
// max over tiers of 2(q-1)/q S/G: q groups of egress G each must get what the
// others hold. `links` are egresses of groups, one per dimension.
double tier_bound_us(const Dims& dims, const std::vector<Link>& links,
                     double bytes);
// Every input read and every output written once: 2PS/M.
double shared_bound_us(double memory_gbs, int ranks, double bytes);

}  // namespace sheaf::topo
