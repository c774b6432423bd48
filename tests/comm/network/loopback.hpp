#pragma once
// Programs of this host that connect to each other.

#include <gtest/gtest.h>
#include <poll.h>

#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/handshake.hpp"

namespace sheaf::test {

inline const comm::Address kLoopback = *comm::parse_address("127.0.0.1/8");

// A socket that listens on a free port.
struct Listener {
  std::uint16_t port = 0;
  comm::Socket socket = comm::listen_at(kLoopback, port);
};

inline std::uint16_t free_port() { return Listener().port; }

inline comm::Deadline soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

inline comm::Socket connect_to_loopback(std::uint16_t port) {
  int error = 0;
  comm::Socket socket = comm::connect_within({kLoopback, port}, soon(), error);
  EXPECT_EQ(error, 0);
  return socket;
}

inline comm::JobIdentity identity_with(const std::string& secret,
                                       const std::string& job = "job") {
  return {.job = job,
          .key = comm::Key().derive(secret, comm::bytes_of(job)),
          .has_secret = true};
}

inline comm::Party party(int rank, int size,
                         const std::string& secret = "a test's secret") {
  return {.purpose = comm::Purpose::kTransport,
          .identity = identity_with(secret),
          .rank = rank,
          .size = size};
}

}  // namespace sheaf::test
