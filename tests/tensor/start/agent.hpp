#pragma once
// The store that torchrun's agent serves.

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/tensor/start/meeting.hpp"

namespace sheaf::tensor {

class Agent {
 public:
  explicit Agent(std::uint16_t port) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  // Its stored values, as another program may read and change them.
  c10d::Store& store() { return *store_; }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

inline MeetingPlace at_agent(std::uint16_t port, int rank, int world_size) {
  MeetingPlace place = at_port(port, rank, world_size);
  place.has_server = true;
  return place;
}

}  // namespace sheaf::tensor
