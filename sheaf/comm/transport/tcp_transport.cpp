// The transport over TCP. No thread is dedicated to moving data: waiting
// threads do it in test() and progress(), which saves a thread switch per
// message. Each peer has one lock per direction.

#include "sheaf/comm/transport/tcp_transport.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "sheaf/comm/transport/tcp_inbox.hpp"
#include "sheaf/comm/transport/tcp_outbox.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

constexpr auto kFarewellTimeout = std::chrono::seconds(5);
// Number of polls of a single peer per poll of all peers.
constexpr std::uint32_t kLooks = 8;

// Periods in which connections are checked for lost hosts, and of beat().
constexpr auto kWatchPeriod = std::chrono::milliseconds(100);
constexpr auto kBeatPeriod = std::chrono::milliseconds(200);

struct Peer {
  TcpCard card;
  std::mutex connecting;                   // protects the next two members
  bool has_begun = false;                  // to connect
  std::unique_ptr<Connector> connector{};  // until it has ended
  Outbox out;
  Inbox in;
  AckWatch watch{host_timeout()};
};

TcpOptions with_environment(TcpOptions options) {
  const char* interface = std::getenv("SHEAF_INTERFACE");
  if (options.interface.empty() && interface) options.interface = interface;
  return options;
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, int size, const TcpOptions& options, const Meet& meet)
      : rank_(rank),
        options_(with_environment(options)),
        epoll_(new_epoll()),
        addresses_(options_.interface.empty() && options_.address
                       ? std::vector<Address>{*options_.address}
                       : list_addresses(options_.interface)),
        peers_(static_cast<std::size_t>(size)) {
    TcpCard mine{.port = 0, .addresses = addresses_};
    Socket listening =
        listen_at(addresses_.size() == 1 ? std::optional(addresses_.front())
                                         : std::nullopt,
                  mine.port);
    const MeetingResult met = meet(text_of(mine));
    SHEAF_ASSERT(met.cards.size() == peers_.size(), met.cards.size(), " cards");
    for (int peer = 0; peer < size; ++peer)
      at(peer).card =
          parse_card(met.cards[static_cast<std::size_t>(peer)], peer);
    me_ = {.purpose = Purpose::kTransport,
           .identity = {.job = options_.identity.job, .key = met.session},
           .rank = rank,
           .size = size,
           .encrypts = options_.encrypts};
    acceptor_ = std::make_unique<Acceptor>(
        std::move(listening), me_, [this](Acceptor::Guest guest) {
          watch(guest.channel, guest.rank, /*is_out=*/false);
          at(guest.rank).in.attach(std::move(guest.channel));
        });
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::string name() const override { return "tcp"; }
  std::vector<Address> addresses() const override { return addresses_; }

  Request send(int peer, Tag tag, const void* data,
               std::size_t bytes) override {
    connect(peer);
    return hand_out(at(peer).out.send(peer, tag, data, bytes));
  }

  // There must be a connection to the peer, so that its end is noticed even if
  // it never sends anything. A peer that has already ended may have sent its
  // last messages before; then its connection is attached by now.
  Request receive(int peer, Tag tag, void* data, std::size_t bytes) override {
    if (!at(peer).in.is_attached()) connect(peer);
    return hand_out(at(peer).in.receive(peer, tag, data, bytes));
  }

  bool test(Request& request) override {
    if (!request) return true;
    auto* pending = as_pending(request);
    if (pending->is_in_progress()) look(*pending);
    if (pending->is_in_progress()) return false;
    const std::unique_ptr<TcpRequest> ended(pending);
    request.clear();
    if (ended->state == TcpRequest::State::kFailed)
      throw TransportError(ended->error);
    return true;
  }

  void abandon(Request& request) noexcept override {
    if (!request) return;
    auto* pending = as_pending(request);
    request.clear();
    if (pending->is_send)
      at(pending->peer).out.abandon(pending);
    else
      at(pending->peer).in.abandon(pending);
  }

  bool progress() override { return advance_all(); }

  void beat() override {
    {
      const std::unique_lock lock(watching_, std::try_to_lock);
      const auto now = steady_clock::now();
      if (!lock || now < next_beat_) return;
      next_beat_ = now + kBeatPeriod;
    }
    for (Peer& peer : peers_) peer.out.beat();
  }

  void check_peer(int peer) override {
    beat();
    advance_all();
    const std::string why = at(peer).in.failure();
    if (!why.empty()) throw TransportError(why);
  }

  std::optional<Arrived> probe(Tag tag, std::span<const int> except) override {
    advance_all();
    for (int peer = 0; peer < size(); ++peer) {
      const auto bytes = at(peer).in.probe(tag);
      if (bytes &&
          std::find(except.begin(), except.end(), peer) == except.end())
        return Arrived{peer, *bytes};
    }
    return std::nullopt;
  }

  // Sends good-bye to all peers, and reads until they have done the same: data
  // that arrives at a closed connection would reset it for both sides.
  void finalize(bool clean) override {
    if (!clean) return;
    const auto deadline = steady_clock::now() + kFarewellTimeout;
    while (connecting_ > 0 && steady_clock::now() < deadline) {
      advance_all();
      nap();
    }
    for (auto& peer : peers_) peer.out.say_bye();
    while (advance_all() && steady_clock::now() < deadline) nap();
    for (auto& peer : peers_) peer.out.close_writing();
    while (has_open_peer() && steady_clock::now() < deadline) {
      advance_all();
      nap();
    }
  }

 private:
  static TcpRequest* as_pending(const Request& request) {
    return reinterpret_cast<TcpRequest*>(request.handle());
  }
  static Request hand_out(std::unique_ptr<TcpRequest> request) {
    return request
               ? Request(reinterpret_cast<std::uintptr_t>(request.release()))
               : Request();
  }
  static Socket new_epoll() {
    Socket epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll)
      throw CommError(concat("cannot create an epoll descriptor: ",
                             strerror(errno), "; raise `ulimit -n`"));
    return epoll;
  }
  static void nap() {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  // Must be called before the socket is attached: from then on any thread may
  // close it.
  void watch(const Channel& channel, int peer, bool is_out) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = static_cast<std::uint64_t>(peer) * 2 + is_out;
    epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, channel.fd(), &event);
  }

  // Begins to connect. Messages to the peer are queued meanwhile.
  void connect(int peer) {
    Peer& other = at(peer);
    if (other.out.is_attached()) return;
    {
      const std::lock_guard lock(other.connecting);
      if (std::exchange(other.has_begun, true)) return;
      ++connecting_;
      other.connector = std::make_unique<Connector>(ConnectPlan{
          .endpoints = endpoints_of(
              by_nearness(other.card.addresses, addresses_), other.card.port),
          .me = me_,
          .peer = peer,
          .deadline = steady_clock::now() + options_.connect_timeout,
          .answer_deadline = Deadline::max()});
    }
    advance_connector(peer);
  }

  void advance_connector(int peer) {
    Peer& other = at(peer);
    const std::unique_lock lock(other.connecting, std::try_to_lock);
    if (!lock || !other.connector || !other.connector->advance()) return;
    Connection connection = other.connector->take_result();
    other.connector.reset();
    if (connection.channel) {
      watch(connection.channel, peer, /*is_out=*/true);
      other.out.attach(std::move(connection.channel));
    } else if (connection.is_host_lost) {
      lose_host(peer);
    } else {
      lose_connection(peer, connection.why);
    }
    --connecting_;
  }

  void look(const TcpRequest& pending) {
    if (connecting_ > 0) advance_connector(pending.peer);
    advance(pending.peer, pending.is_send);
    if (looks_.fetch_add(1, std::memory_order_relaxed) % kLooks == 0)
      advance_all();
  }

  void advance(int peer, bool is_out) {
    if (is_out && !at(peer).out.advance())
      lose_out(peer);
    else if (!is_out && !at(peer).in.advance())
      lose_in(peer);
  }

  // Returns whether a message is still waiting to be written.
  bool advance_all() {
    epoll_event events[64];
    const int count = epoll_wait(epoll_.fd(), events, 64, 0);
    for (int i = 0; i < count; ++i) {
      const int peer = static_cast<int>(events[i].data.u64 / 2);
      const bool is_out = events[i].data.u64 % 2;
      if (!is_out)
        advance(peer, /*is_out=*/false);
      else if (!at(peer).out.advance_readable())
        lose_out(peer);
    }
    for (int peer = 0; connecting_ > 0 && peer < size(); ++peer)
      advance_connector(peer);
    bool is_busy = false;
    for (int peer = 0; peer < size(); ++peer) {
      if (!at(peer).out.is_busy()) continue;
      advance(peer, /*is_out=*/true);
      is_busy = true;
    }
    look_for_lost_hosts();
    return is_busy;
  }

  // One thread at a time; others need not wait for it.
  void look_for_lost_hosts() {
    const std::unique_lock lock(watching_, std::try_to_lock);
    const auto now = steady_clock::now();
    if (!lock || now < next_watch_) return;
    next_watch_ = now + kWatchPeriod;
    for (int peer = 0; peer < size(); ++peer)
      if (at(peer).out.is_cut_off(at(peer).watch, now)) lose_host(peer);
  }

  std::string farewell(int peer) {
    if (at(peer).in.has_left()) return concat("rank ", peer, " has exited");
    if (at(peer).in.has_too_many())
      return concat("rank ", peer, " has sent more than ", kMostUnexpectedCount,
                    " messages, or ", kMostUnexpectedBytes >> 20,
                    " MiB, that this rank has not received, and was "
                    "disconnected; wait for earlier messages before sending "
                    "more");
    if (at(peer).in.is_invalid())
      return concat("the connection from rank ", peer,
                    " carried data that does not follow the protocol, and was "
                    "closed");
    return concat("rank ", peer, " has died: its connection was closed");
  }
  void lose_connection(int peer, const std::string& cause) {
    const std::string why = concat(
        "rank ", rank_, " cannot reach rank ", peer, " (", cause,
        "); it may have ended, or a firewall may block the connection: set "
        "SHEAF_INTERFACE to the interface to use");
    at(peer).out.fail(why);
    if (!at(peer).in.is_attached()) at(peer).in.fail(why);
  }
  void lose_in(int peer) {
    const std::string why = farewell(peer);
    at(peer).in.fail(why);
    at(peer).out.fail(why);
  }
  void lose_host(int peer) {
    const std::string why = concat(
        "rank ", peer, " cannot be reached any more: its host has failed, or ",
        "the network to it is cut");
    at(peer).in.fail(why);
    at(peer).out.fail(why);
  }
  // Messages that the peer has already sent can still be read.
  void lose_out(int peer) {
    const std::string why = farewell(peer);
    at(peer).out.fail(why);
    if (!at(peer).in.is_attached()) at(peer).in.fail(why);
  }

  bool has_open_peer() {
    for (const auto& peer : peers_)
      if (peer.in.is_open()) return true;
    return false;
  }

  const int rank_;
  const TcpOptions options_;
  const Socket epoll_;
  const std::vector<Address> addresses_;
  Party me_;  // of the connections
  std::vector<Peer> peers_;
  std::atomic<std::uint32_t> looks_{0};
  std::atomic<int> connecting_{0};  // number of connectors
  std::mutex watching_;             // protects the following times
  steady_clock::time_point next_watch_{};
  steady_clock::time_point next_beat_{};
  // Declared last, because its thread uses the other members.
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(int rank, int size,
                                              const TcpOptions& options,
                                              const Meet& meet) {
  SHEAF_CHECK(rank >= 0 && rank < size, "rank ", rank, " of ", size,
              " ranks; ranks go from 0 to ", size - 1);
  return std::make_unique<TcpTransport>(rank, size, options, meet);
}

}  // namespace sheaf::comm
