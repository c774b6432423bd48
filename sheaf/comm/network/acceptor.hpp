#pragma once
// Accepts connections from other ranks on a thread of its own, while this rank
// is busy. Anybody can connect, so a connection that has not proved that it
// comes from a rank of the job costs a bounded amount of memory, descriptors
// and time: besides one for each rank of the job there are at most
// kMostVisitors, fewer if this process may have few descriptors, each with a
// deadline, and none waits for another. When there are more, one of the source
// address with the most visitors gives way, so that a flood from one address
// does not displace ranks of others.

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/network/handshake.hpp"

namespace sheaf::comm {

class Acceptor {
 public:
  static constexpr std::size_t kMostVisitors = 128;

  struct Guest {
    int rank = 0;
    int size = 0;  // number of ranks, as the guest knows it
    // Its first flush() tells the guest that it is accepted. It must be stored
    // before that: a guest sends messages at once, and may then end.
    Channel channel;
  };
  // Called on the acceptor's thread for each rank that has proved its identity.
  // If it throws, the rank is refused.
  using Welcome = std::function<void(Guest guest)>;

  Acceptor(Socket listening, const Party& me, Welcome welcome);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The last reason for which a rank was refused, such as another secret, for
  // the error of a rank that waits for it; empty if there was none.
  std::string last_refusal() const;

 private:
  // A connection whose other side has not proved its identity.
  struct Visitor {
    Visitor(Socket socket, const Party& me);
    bool is_over() const { return !socket; }
    bool has_valid_hello() const {
      return has_answer && handshake.refusal() == Refusal::kNone;
    }

    Socket socket;
    std::optional<Endpoint> peer;  // nothing if it has already closed
    Deadline deadline;
    ServerHandshake handshake;
    bool has_answer = false;  // the hello has come and was answered
    std::size_t received = 0;
    ClientHello hello;
    Mac proof{};
  };

  void run();
  void admit();
  void make_room();
  void evict();
  void advance(Visitor& visitor);
  bool receive(Visitor& visitor, void* data, std::size_t bytes);
  void answer_hello(Visitor& visitor);
  void take_proof(Visitor& visitor);
  void let_in(Visitor& visitor, const Mac& accepted);
  void refuse(Visitor& visitor, const std::string& why);
  void drop_late();

  Socket listening_;
  Socket stop_;   // an event that stops the thread
  Socket spare_;  // closed to accept, and close, when no descriptor is left
  const Party me_;
  const Welcome welcome_;
  const std::size_t most_visitors_;
  std::list<Visitor> visitors_;  // oldest first
  mutable std::mutex mutex_;     // protects the following members
  std::string last_refusal_;
  int refusals_ = 0;
  std::thread thread_;
};

}  // namespace sheaf::comm
