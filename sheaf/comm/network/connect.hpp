#pragma once
// Connects to another rank.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/network/handshake.hpp"

namespace sheaf::comm {

struct ConnectPlan {
  std::vector<Endpoint> endpoints;  // in the order to try them
  Party me;
  int peer = 0;  // rank to connect to
  Deadline deadline;
  // Applies once a host has accepted the connection: the process there may be
  // stopped or busy. Default: the same as `deadline`.
  std::optional<Deadline> answer_deadline{};
};

// Result of an attempt to connect.
struct Connection {
  Channel channel;  // empty if no endpoint answered in time as the peer
  // The error of each endpoint.
  std::string why{};
  // Whether another attempt may help. Otherwise programs answered that are not
  // the peer.
  bool may_retry = true;
  // Whether the host of the peer was lost after the peer had answered. The peer
  // may have accepted the connection, and accepts no second one.
  bool is_host_lost = false;
};

// An attempt to connect that never blocks. It tries one endpoint after the
// other, in rounds, and authenticates both sides. In the first round it waits
// briefly for each endpoint, to skip unreachable ones quickly, and longer in
// each further round. It ends when all endpoints have failed for good, when the
// host of the peer is lost, or at the deadlines.
class Connector {
 public:
  // Throws UsageError if SHEAF_HOST_TIMEOUT is invalid.
  explicit Connector(ConnectPlan plan);
  // Goes on as far as possible. Returns whether the attempt has ended.
  bool advance();
  // Waits until advance() has something to do, or until the deadline.
  void wait(Deadline until) const;
  // To be called once, after the end.
  Connection take_result() { return std::move(result_); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Step { kPause, kConnect, kAnswer, kVerdict, kOver };
  // What an endpoint's failure means.
  enum class Failure {
    kUnreachable,  // for now
    kSlow,         // no reaction yet, or it has closed the connection
    kSilent,       // accepted by the kernel only
    kStranger      // another program answered
  };

  bool take_step(Time now);
  bool await_connection(Time now);
  template <class T>
  bool await(T& message, void (Connector::*next)(Time now), Time now);
  void begin_round(Time now);
  void try_endpoint(Time now);
  void say_hello(Time now);
  void prove(Time now);
  void end(Time now);
  void fail(Time now, Failure failure, const std::string& why);
  void lose_host();
  void add_reason(const std::string& why);
  void end_round(Time now);
  Time limit(Time now, int factor, Time latest) const;
  Time answer_deadline() const {
    return plan_.answer_deadline.value_or(plan_.deadline);
  }
  bool send(const void* data, std::size_t bytes) const;

  const ConnectPlan plan_;
  Step step_ = Step::kPause;
  Time limit_{};  // of this step
  int round_ = 0;
  std::size_t endpoint_ = 0;
  Socket socket_;
  std::optional<ClientHandshake> handshake_;
  std::size_t received_ = 0;  // bytes of the message that it waits for
  ServerHello theirs_;
  Mac accepted_{};
  AckWatch watch_{host_timeout()};
  // In this round.
  bool was_slow_ = false;
  bool was_silent_ = false;
  Connection result_;
};

// Connects, and calls `check`, which may throw, while it waits.
Connection connect_to(const ConnectPlan& plan,
                      const std::function<void()>& check = {});

// The endpoints of the same port at several addresses.
std::vector<Endpoint> endpoints_of(const std::vector<Address>& addresses,
                                   std::uint16_t port);

}  // namespace sheaf::comm
