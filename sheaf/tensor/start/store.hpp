#pragma once
// A key-value store shared by all ranks during the rendezvous.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "sheaf/tensor/start/init_method.hpp"

namespace sheaf::tensor {

using Deadline = std::chrono::steady_clock::time_point;

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

}  // namespace sheaf::tensor
