#pragma once
// Rendezvous: the ranks find an address in the environment, a URL and the
// caller's options, and exchange their identities and listening addresses
// through a key-value store there.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

using Deadline = std::chrono::steady_clock::time_point;

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

// Opens the store at `place`. Over TCP rank 0 serves it unless the place
// already has a server. Throws UsageError if libtorch was built without c10d or
// the address is invalid, and TimeoutError if no server responds in time. Later
// failures of the store are CommErrors.
std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline);

// Sends `mine` to all ranks and returns the strings of all ranks, in rank
// order. Errors name the ranks missing at the deadline, two processes that
// claim the same rank, different world sizes, or a file left by an earlier run.
// Such an error is passed on to the other ranks, which fail with the same text.
std::vector<std::string> meet(KeyStore& store, const MeetingPlace& place,
                              Deadline deadline, const std::string& mine);

}  // namespace sheaf::tensor
