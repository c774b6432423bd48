#pragma once
// Where ranks meet, as the environment, a URL and the caller say it.

#include <cstdint>
#include <string>

#include "sheaf/tensor/start/init.hpp"

namespace sheaf::tensor {

struct MeetingPlace {
  int rank = 0;
  int world_size = 1;
  std::string host;  // of TCP; empty: a file
  std::uint16_t port = 0;
  std::string path;
  // A store listens there already, that of torchrun's agent.
  bool has_server = false;
  std::string prefix;  // of all keys
  std::chrono::milliseconds timeout{0};
  // Whose fault a wrong value is: "RANK", "rank of tcp://..." ...
  std::string rank_from;
  std::string world_size_from;
  std::string host_from;
  std::string host_hint = "set it";  // what to do about a wrong host
  std::string port_from;
};
std::string text_of(const MeetingPlace& place);  // "10.0.0.1:29500", a path

// UsageError for whatever is missing, given twice or impossible. The timeout
// is as in the options.
MeetingPlace find_meeting_place(const ProcessGroupOptions& options);

}  // namespace sheaf::tensor
