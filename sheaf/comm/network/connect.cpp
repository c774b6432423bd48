#include "sheaf/comm/network/connect.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// In the first round; each further one is twice as long, up to a limit.
constexpr auto kFirstTimeout = milliseconds(500);
constexpr auto kFirstPause = milliseconds(10);
constexpr int kMostDoublings = 5;
// This process may have been stopped when the deadline passed.
constexpr int kFewestRounds = 2;
// The kernel of a host accepts a connection sooner than a rank, which may share
// a processor with others, answers.
constexpr int kAnswerFactor = 4;
constexpr auto kCheckPeriod = milliseconds(50);

}  // namespace

Connector::Connector(ConnectPlan plan) : plan_(std::move(plan)) {}

bool Connector::advance() {
  while (step_ != Step::kOver)
    if (!take_step(steady_clock::now())) return false;
  return true;
}

void Connector::wait(Deadline until) const {
  const short events = step_ == Step::kConnect ? POLLOUT : POLLIN;
  is_ready(socket_.fd(), events, std::min(until, limit_));
}

// Returns false if nothing more can be done at present.
bool Connector::take_step(Time now) {
  switch (step_) {
    case Step::kConnect:
      return await_connection(now);
    case Step::kAnswer:
      return await(theirs_, &Connector::prove, now);
    case Step::kVerdict:
      return await(accepted_, &Connector::end, now);
    default:
      if (now < limit_) return false;
      begin_round(now);
      return true;
  }
}

void Connector::begin_round(Time now) {
  endpoint_ = 0;
  was_slow_ = was_silent_ = false;
  result_ = {.channel = {}, .why = {}, .may_retry = false};
  try_endpoint(now);
}

Connector::Time Connector::limit(Time now, int factor, Time latest) const {
  return std::min(latest, now + kFirstTimeout * (factor << round_));
}

void Connector::try_endpoint(Time now) {
  if (endpoint_ == plan_.endpoints.size()) return end_round(now);
  int error = 0;
  socket_ = begin_to_connect(plan_.endpoints[endpoint_], error);
  step_ = Step::kConnect;
  limit_ = limit(now, 1, plan_.deadline);
  if (!socket_) fail(now, Failure::kUnreachable, strerror(error));
}

bool Connector::await_connection(Time now) {
  if (is_ready(socket_.fd(), POLLOUT, now)) {
    if (const int error = error_of_connecting(socket_); error != 0)
      fail(now, Failure::kUnreachable, strerror(error));
    else
      say_hello(now);
    return true;
  }
  if (now < limit_) return false;
  fail(now, Failure::kSlow, strerror(ETIMEDOUT));
  return true;
}

// Messages of a handshake always fit into the send buffer.
bool Connector::send(const void* data, std::size_t bytes) const {
  return write_within(socket_.fd(), data, bytes, Deadline::min());
}

void Connector::say_hello(Time now) {
  handshake_.emplace(plan_.me, plan_.peer);
  if (!send(&handshake_->hello(), sizeof(ClientHello)))
    return fail(now, Failure::kSlow, "it closed the connection");
  step_ = Step::kAnswer;
  received_ = 0;
  limit_ = limit(now, kAnswerFactor, answer_deadline());
}

// Receives a message of the handshake, and continues with `next`.
template <class T>
bool Connector::await(T& message, void (Connector::*next)(Time now), Time now) {
  auto* const at = reinterpret_cast<std::byte*>(&message) + received_;
  const ssize_t got =
      ::recv(socket_.fd(), at, sizeof message - received_, MSG_DONTWAIT);
  if (got < 0 && is_for_later(errno)) {
    if (step_ == Step::kVerdict && watch_.is_cut_off(socket_.fd(), now)) {
      lose_host();
      return true;
    }
    if (now < limit_) return false;
    fail(now, Failure::kSilent, "connected, but no answer");
  } else if (got < 0 && errno == ETIMEDOUT) {
    lose_host();
  } else if (got <= 0) {
    fail(now, Failure::kSlow, "it closed the connection");
  } else {
    received_ += static_cast<std::size_t>(got);
    if (received_ == sizeof message) (this->*next)(now);
  }
  return true;
}

void Connector::prove(Time now) {
  std::string why;
  const auto proof = handshake_->answer(theirs_, why);
  if (!proof) {
    // The other side reports a wrong proof, but not a closed connection.
    if (theirs_.refusal == Refusal::kNone) send(Mac().data(), sizeof(Mac));
    return fail(now, Failure::kStranger, why);
  }
  // Keep-alive detects the loss of a host that has acknowledged the proof.
  prepare(socket_);
  if (!send(&*proof, sizeof *proof))
    return fail(now, Failure::kSlow, "it closed the connection");
  step_ = Step::kVerdict;
  received_ = 0;
  // This is the peer. It may have accepted this connection, and would take its
  // end for the death of this rank.
  limit_ = answer_deadline();
}

void Connector::end(Time now) {
  if (!handshake_->is_accepted(accepted_))
    return fail(now, Failure::kStranger, "it did not accept the connection");
  Channel channel;
  try {
    channel = plan_.me.encrypts
                  ? Channel(std::move(socket_), handshake_->keys())
                  : Channel(std::move(socket_));
  } catch (const CommError& error) {
    return fail(now, Failure::kStranger, error.what());
  }
  result_ = {.channel = std::move(channel)};
  step_ = Step::kOver;
}

void Connector::fail(Time now, Failure failure, const std::string& why) {
  socket_.close();
  was_slow_ = was_slow_ || failure == Failure::kSlow;
  was_silent_ = was_silent_ || failure == Failure::kSilent;
  result_.may_retry = result_.may_retry || failure != Failure::kStranger;
  add_reason(why);
  ++endpoint_;
  try_endpoint(now);
}

void Connector::lose_host() {
  socket_.close();
  result_.may_retry = false;
  result_.is_host_lost = true;
  add_reason("its host does not respond any more");
  step_ = Step::kOver;
}

void Connector::add_reason(const std::string& why) {
  result_.why += concat(result_.why.empty() ? "" : ", ",
                        text_of(plan_.endpoints[endpoint_]), ": ", why);
}

void Connector::end_round(Time now) {
  const bool is_slow_allowed = now < plan_.deadline || round_ < kFewestRounds;
  const bool goes_on = (was_slow_ && is_slow_allowed) ||
                       (was_silent_ && now < answer_deadline());
  step_ = goes_on ? Step::kPause : Step::kOver;
  limit_ = now + kFirstPause * (1 << round_);
  round_ = std::min(round_ + 1, kMostDoublings);
}

Connection connect_to(const ConnectPlan& plan,
                      const std::function<void()>& check) {
  Connector connector(plan);
  while (!connector.advance()) {
    if (check) check();
    connector.wait(steady_clock::now() + kCheckPeriod);
  }
  return connector.take_result();
}

std::vector<Endpoint> endpoints_of(const std::vector<Address>& addresses,
                                   std::uint16_t port) {
  std::vector<Endpoint> result;
  for (const Address& address : addresses) result.push_back({address, port});
  return result;
}

}  // namespace sheaf::comm
