#pragma once
// Measurements of the memory, cores and network, for `sheaf bench --fit`.

#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/topo/fit.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::cli {

// All ranks of the group must call each function; all get the same result.

// Broadcasts between two ranks of a host through the arena: one rank copies the
// whole buffer, and the ranks synchronize twice.
std::vector<topo::Sample> probe_shared_memory(const comm::Group& pair);

// Bytes read and written while all ranks of a host copy at the same time, in
// GB/s.
double probe_memory_gbs(const comm::Group& host);

// Input bytes that one core reduces, in GB/s; measured by the first rank.
double probe_reduce_gbs(const comm::Group& host);

// Slowdown of additions over about 100 MB when as many ranks run them as the
// host has cores, compared with the first rank alone. Both are interleaved,
// and the fastest block of each counts.
topo::Contention probe_contention(const comm::Group& host);

// Half the round-trip time of messages between the two ranks, by size.
std::vector<topo::Sample> probe_network(const comm::Group& pair);

// Bandwidth in one direction while both ranks send and receive, in GB/s.
double probe_stream_gbs(const comm::Group& pair);

// Time that a core spends on starting the send of one small message.
double probe_message_us(const comm::Group& pair);

}  // namespace sheaf::cli
