#pragma once
// Programs of this host that connect to each other.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

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

// From now on the kernel drops what arrives for this end of a connection, as if
// its host were lost: nothing is acknowledged, and nothing is closed.
inline void cut_off(const comm::Socket& socket) {
  sock_filter drop{};
  drop.code = BPF_RET | BPF_K;
  const sock_fprog program{1, &drop};
  EXPECT_EQ(setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program,
                       sizeof program),
            0);
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
