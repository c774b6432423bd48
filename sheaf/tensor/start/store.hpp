#pragma once
// Keys and values that all ranks see, for the time of the start.

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
  // Blocks until there is one.
  virtual std::string get(const std::string& key) = 0;
  virtual bool has(const std::string& key) = 0;
  // Adds to a number that is zero at first; the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t value) = 0;
};

// The store at that place: rank 0 serves it over TCP unless a server is there.
// UsageError where libtorch was built without c10d, or a part of the place is
// wrong; TimeoutError when nobody serves in time. Failures of the store are
// CommErrors.
std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline);

}  // namespace sheaf::tensor
