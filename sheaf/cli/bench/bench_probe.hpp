#pragma once
// Measurements of a machine's parts, which `sheaf bench --fit` fits.

#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/topo/fit.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::cli {

// All ranks of the group call each of these and get the same result.

// Broadcasts between two ranks of a host by way of the arena: a copy of the
// whole buffer by one rank, and two meetings of both.
std::vector<topo::Sample> probe_shared_memory(const comm::Group& pair);

// Bytes read and written by all ranks of a host that copy at once, in GB/s.
double probe_memory_gbs(const comm::Group& host);

// Input bytes that one core adds, in GB/s; measured by the first rank.
double probe_reduce_gbs(const comm::Group& host);

// Additions in a hundred megabytes by the first rank alone against those by as
// many ranks of the host as it has cores, in turns, where nothing else
// disturbs.
topo::Contention probe_contention(const comm::Group& host);

// Messages there and back between the first two ranks; half the time of both.
std::vector<topo::Sample> probe_network(const comm::Group& pair);

// Both ranks send and receive at once: what goes one way, in GB/s.
double probe_stream_gbs(const comm::Group& pair);

// Time that a core is busy with handing over one small message.
double probe_message_us(const comm::Group& pair);

}  // namespace sheaf::cli
