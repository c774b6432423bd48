#pragma once
// The rendezvous address, from the environment, a URL and the caller's options.

#include <cstdint>
#include <string>

#include "sheaf/tensor/start/init.hpp"

namespace sheaf::tensor {

struct MeetingPlace {
  int rank = 0;
  int world_size = 1;
  std::string host;  // for TCP; empty if the ranks meet at a file
  std::uint16_t port = 0;
  std::string path;
  // torchrun's agent already runs a store server at this address.
  bool has_server = false;
  std::string prefix;  // prepended to all keys
  std::chrono::milliseconds timeout{0};
  // The source of each value, for error messages: "RANK", "rank of tcp://..."
  std::string rank_from;
  std::string world_size_from;
  std::string host_from;
  std::string host_hint = "set it";  // advice for a wrong host
  std::string port_from;
};
// "10.0.0.1:29500" or the path.
std::string text_of(const MeetingPlace& place);

// Throws UsageError for values that are missing, contradictory or invalid. The
// timeout is copied from the options.
MeetingPlace find_meeting_place(const ProcessGroupOptions& options);

}  // namespace sheaf::tensor
