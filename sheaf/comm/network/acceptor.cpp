#include "sheaf/comm/network/acceptor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

// Ranks send their messages at once, but may share a processor with others.
constexpr auto kVisitTimeout = std::chrono::seconds(10);
constexpr int kMostWarnings = 5;
// Between attempts to accept when no descriptor is left.
constexpr auto kPause = std::chrono::milliseconds(50);

Socket open_spare() {
  return Socket(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Strangers take at most an eighth of the descriptors that this process may
// have.
std::size_t most_strangers() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Acceptor::kMostVisitors;
  return static_cast<std::size_t>(
      std::min<rlim_t>(limit.rlim_cur / 8, Acceptor::kMostVisitors));
}

bool has_too_many_files(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS ||
         error == ENOMEM;
}

}  // namespace

Acceptor::Visitor::Visitor(Socket connection, const Party& me)
    : socket(std::move(connection)),
      peer(peer_of(socket.fd())),
      deadline(steady_clock::now() + kVisitTimeout),
      handshake(me) {}

Acceptor::Acceptor(Socket listening, const Party& me, Welcome welcome)
    : listening_(std::move(listening)),
      stop_(new_event()),
      spare_(open_spare()),
      me_(me),
      welcome_(std::move(welcome)),
      most_visitors_(most_strangers() + static_cast<std::size_t>(me.size)),
      thread_([this] { run(); }) {}

Acceptor::~Acceptor() {
  wake(stop_);
  thread_.join();
}

std::string Acceptor::last_refusal() const {
  const std::lock_guard lock(mutex_);
  return last_refusal_;
}

void Acceptor::run() {
  std::vector<pollfd> entries;
  for (;;) {
    entries = {{stop_.fd(), POLLIN, 0}, {listening_.fd(), POLLIN, 0}};
    for (const Visitor& visitor : visitors_)
      entries.push_back({visitor.socket.fd(), POLLIN, 0});
    const int patience =
        visitors_.empty() ? -1 : milliseconds_until(visitors_.front().deadline);
    poll(entries.data(), entries.size(), patience);
    if (entries[0].revents) return;
    auto entry = entries.begin() + 2;
    for (Visitor& visitor : visitors_)
      if ((entry++)->revents) advance(visitor);
    drop_late();
    if (entries[1].revents) admit();
  }
}

void Acceptor::admit() {
  Socket socket(
      accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket && has_too_many_files(errno)) return make_room();
  if (!socket) return;
  if (visitors_.size() == most_visitors_) evict();
  visitors_.emplace_back(std::move(socket), me_);
}

// Without a free descriptor the connection stays in the queue, and poll() would
// return at once again and again.
void Acceptor::make_room() {
  if (!visitors_.empty()) return evict();
  spare_.close();
  { const Socket refused(accept4(listening_.fd(), nullptr, nullptr, 0)); }
  spare_ = open_spare();
  // Another thread may have taken the descriptor.
  if (!spare_) is_ready(stop_.fd(), POLLIN, steady_clock::now() + kPause);
}

// Closes a visitor of the source that has the most. Ranks may share their
// address with strangers, so these are divided into those with a valid hello
// and those without one: the oldest of the larger part is closed. If one part
// always went first, strangers could fill all places with the other.
void Acceptor::evict() {
  const auto source = [](const Visitor& visitor) {
    return visitor.peer ? source_of(visitor.peer->address).ip : Address().ip;
  };
  std::map<decltype(Address::ip), std::array<int, 2>> counts;
  for (const Visitor& visitor : visitors_)
    ++counts[source(visitor)][visitor.has_valid_hello()];
  const auto rating = [&](const Visitor& visitor) {
    const auto& [silent, valid] = counts[source(visitor)];
    return std::pair(silent + valid,
                     visitor.has_valid_hello() ? valid : silent);
  };
  visitors_.erase(std::max_element(
      visitors_.begin(), visitors_.end(),
      [&](const auto& a, const auto& b) { return rating(a) < rating(b); }));
}

void Acceptor::drop_late() {
  const auto now = steady_clock::now();
  std::erase_if(visitors_, [&](const Visitor& visitor) {
    return visitor.is_over() || visitor.deadline <= now;
  });
}

void Acceptor::advance(Visitor& visitor) {
  if (!visitor.has_answer &&
      receive(visitor, &visitor.hello, sizeof visitor.hello))
    answer_hello(visitor);
  if (visitor.has_answer && receive(visitor, &visitor.proof, sizeof(Mac)))
    take_proof(visitor);
}

// Returns whether all bytes of the message have come; closes the connection at
// its end. Port scanners and ranks that gave up end it as well, so this is not
// reported.
bool Acceptor::receive(Visitor& visitor, void* data, std::size_t bytes) {
  if (visitor.is_over()) return false;
  auto* const at = static_cast<std::byte*>(data) + visitor.received;
  const ssize_t got =
      ::recv(visitor.socket.fd(), at, bytes - visitor.received, MSG_DONTWAIT);
  if (got < 0 && is_for_later(errno)) return false;
  if (got <= 0) {
    visitor.socket.close();
    return false;
  }
  visitor.received += static_cast<std::size_t>(got);
  if (visitor.received < bytes) return false;
  visitor.received = 0;
  return true;
}

void Acceptor::answer_hello(Visitor& visitor) {
  const auto answer = visitor.handshake.answer(visitor.hello);
  if (!answer) return visitor.socket.close();  // not a rank
  visitor.has_answer = true;
  const Refusal refusal = visitor.handshake.refusal();
  if (refusal != Refusal::kNone)
    refuse(visitor, concat("it belongs to ", text_of(refusal)));
  // An answer always fits into the send buffer of a new connection.
  write_within(visitor.socket.fd(), &*answer, sizeof *answer, Deadline::min());
  if (refusal != Refusal::kNone) ::shutdown(visitor.socket.fd(), SHUT_WR);
}

void Acceptor::take_proof(Visitor& visitor) {
  const auto accepted = visitor.handshake.accept(visitor.proof);
  if (!accepted) {
    refuse(visitor,
           "its proof is wrong: it has another secret "
           "(SHEAF_SECRET), or repeats a recorded connection");
    return visitor.socket.close();
  }
  try {
    let_in(visitor, *accepted);
  } catch (const std::exception& error) {
    refuse(visitor, error.what());
    visitor.socket.close();
  }
}

void Acceptor::let_in(Visitor& visitor, const Mac& accepted) {
  prepare(visitor.socket);
  Channel channel = me_.encrypts ? Channel(std::move(visitor.socket),
                                           visitor.handshake.keys())
                                 : Channel(std::move(visitor.socket));
  channel.begin_with(accepted);
  welcome_({.rank = visitor.handshake.peer(),
            .size = visitor.handshake.peer_size(),
            .channel = std::move(channel)});
}

void Acceptor::refuse(Visitor& visitor, const std::string& why) {
  const std::string text =
      concat("a connection from ",
             visitor.peer ? text_of(*visitor.peer) : "an unknown address",
             " that claims to be rank ", visitor.handshake.peer(),
             " was refused: ", why);
  const std::lock_guard lock(mutex_);
  last_refusal_ = text;
  ++refusals_;
  if (refusals_ <= kMostWarnings)
    log_warn(
        "{}{}", text,
        refusals_ == kMostWarnings ? "; further ones are not reported" : "");
}

}  // namespace sheaf::comm
