#pragma once
// The first meeting of the ranks of a job: each connects to rank 0, sends its
// card and receives those of all ranks. Needs nothing but an address at which
// rank 0 can listen.
//
//   other ranks            rank 0
//   card ────────────────► waits for all cards
//        ◄──────────────── all cards, and a random number
//   received ────────────► waits until all ranks have them
//        ◄──────────────── start
//
// Rank 0 reports every failure to all ranks: a rank that dies before the start
// (its connection closes), whose host is lost (no acknowledgments) or that does
// not come, two processes with one rank, and world sizes that differ.

#include <string>
#include <vector>

#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/handshake.hpp"
#include "sheaf/comm/network/secret.hpp"

namespace sheaf::comm {

struct MeetingPlan {
  std::vector<Endpoint> endpoints;  // of rank 0
  // Whether rank 0 listens on all of its interfaces, and not only on the first
  // endpoint that is one of them.
  bool listens_everywhere = false;
  JobIdentity identity;
  int rank = 0;
  int size = 1;
  bool encrypts = false;
  Deadline deadline;
  // For error messages.
  std::string place;      // "10.0.0.1:29500"
  std::string port_from;  // sources of the values, such as "MASTER_PORT"
  std::string host_from;
  std::string rank_from;
  std::string size_from;
};

struct MeetingResult {
  std::vector<std::string> cards;  // by rank
  // The key of this session, derived from the job's and from a random number of
  // rank 0. Without a secret, everybody who reads the messages can derive it.
  Key session;
};

inline constexpr std::size_t kMostCardBytes = 4096;

// Every rank calls it once; `mine` has at most kMostCardBytes. Throws
// UsageError, TimeoutError or CommError, on all ranks that have come.
MeetingResult meet_at_rank_zero(const MeetingPlan& plan,
                                const std::string& mine);

}  // namespace sheaf::comm
