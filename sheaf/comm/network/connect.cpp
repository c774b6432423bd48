#include "sheaf/comm/network/connect.hpp"

#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// An acceptor answers at once, unless its host is busy.
constexpr auto kAnswerTimeout = std::chrono::seconds(10);
constexpr auto kFirstTimeout = milliseconds(500);

Connection failed(std::string why, bool may_retry) {
  return {.channel = {}, .why = std::move(why), .may_retry = may_retry};
}

// The connecting side of a handshake.
Connection authenticate(Socket socket, const ConnectPlan& plan,
                        Deadline deadline) {
  ClientHandshake handshake(plan.me, plan.peer);
  ServerHello theirs;
  const int fd = socket.fd();
  if (!write_within(fd, &handshake.hello(), sizeof(ClientHello), deadline) ||
      !read_within(fd, &theirs, sizeof theirs, deadline))
    return failed("connected, but no answer", true);
  std::string why;
  const auto proof = handshake.answer(theirs, why);
  if (!proof) return failed(why, false);
  Mac accepted{};
  if (!write_within(fd, &*proof, sizeof *proof, deadline) ||
      !read_within(fd, &accepted, sizeof accepted, deadline))
    return failed("it closed the connection", true);
  if (!handshake.is_accepted(accepted))
    return failed("it did not accept the connection", false);
  prepare(socket);
  if (!plan.me.encrypts) return {.channel = Channel(std::move(socket))};
  try {
    return {.channel = Channel(std::move(socket), handshake.keys())};
  } catch (const CommError& error) {
    return failed(error.what(), false);
  }
}

Connection try_endpoint(const ConnectPlan& plan, const Endpoint& endpoint,
                        Deadline deadline) {
  int error = 0;
  Socket socket = connect_within(endpoint, deadline, error);
  if (!socket) return failed(strerror(error), true);
  return authenticate(
      std::move(socket), plan,
      std::min(plan.deadline, steady_clock::now() + kAnswerTimeout));
}

}  // namespace

Connection connect_to(const ConnectPlan& plan) {
  Connection result;
  for (const bool is_first : {true, false}) {
    result = {};
    for (const Endpoint& endpoint : plan.endpoints) {
      const auto until =
          is_first
              ? std::min(plan.deadline, steady_clock::now() + kFirstTimeout)
              : plan.deadline;
      Connection one = try_endpoint(plan, endpoint, until);
      if (one.channel) return one;
      result.why += concat(result.why.empty() ? "" : ", ", text_of(endpoint),
                           ": ", one.why);
      result.may_retry = result.may_retry && one.may_retry;
    }
    if (!result.may_retry) break;
  }
  return result;
}

std::vector<Endpoint> endpoints_of(const std::vector<Address>& addresses,
                                   std::uint16_t port) {
  std::vector<Endpoint> result;
  for (const Address& address : addresses) result.push_back({address, port});
  return result;
}

}  // namespace sheaf::comm
