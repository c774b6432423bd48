#pragma once
// Rendezvous: the ranks find an address in the environment, a URL and the
// caller's options, and exchange their identities and listening addresses
// through a key-value store there.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/network/meeting.hpp"
#include "sheaf/comm/network/secret.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/tensor/start/init.hpp"

namespace sheaf::tensor {

struct MeetingPlace {
  int rank = 0;
  int world_size = 1;
  std::string host;  // for TCP; empty if the rendezvous is a file
  std::uint16_t port = 0;
  std::string path;
  // torchrun's agent already runs a store server at this address.
  bool has_server = false;
  std::string job;     // name of the job, if a launcher or SHEAF_JOB gives it
  std::string prefix;  // distinguishes programs and attempts of a job
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
// The endpoints of the host. Throws UsageError, which names the source of the
// host, if it is unknown.
std::vector<comm::Endpoint> endpoints_of(const MeetingPlace& place);

// Throws UsageError for values that are missing, contradictory or invalid. The
// timeout is copied from the options.
MeetingPlace find_meeting_place(const ProcessGroupOptions& options);

using comm::Deadline;

// The identity of the job that meets at this place.
comm::JobIdentity identity_of(const MeetingPlace& place);

// Meets the other ranks and connects to them by TCP. Throws UsageError,
// TimeoutError or CommError.
std::unique_ptr<comm::Transport> connect_ranks(const MeetingPlace& place,
                                               Deadline deadline);

// A key-value store shared by all ranks during the rendezvous.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Blocks until the key exists.
  virtual std::string get(const std::string& key) = 0;
  virtual bool has(const std::string& key) = 0;
  // Adds to a counter, initially zero, and returns the new value.
  virtual std::int64_t add(const std::string& key, std::int64_t value) = 0;
};

// Opens the store at `place`: a file, or that of torchrun's agent. Throws
// UsageError if libtorch was built without c10d or the address is invalid, and
// TimeoutError if no server responds in time. Later failures of the store are
// CommErrors.
std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline);

// Sends `mine` to all ranks, through a store to which others may write, and
// returns the strings of all ranks. Errors name the ranks missing at the
// deadline, two processes that claim the same rank, different world sizes, a
// rank of this host that has died, or a file left by an earlier run. Such an
// error is passed on to the other ranks, which fail with the same text.
comm::MeetingResult meet(KeyStore& store, const MeetingPlace& place,
                         Deadline deadline, const std::string& mine);

}  // namespace sheaf::tensor
