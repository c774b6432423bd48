#pragma once
// Messages to one peer.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"

namespace sheaf::comm {

class Outbox {
 public:
  // Takes the connection, and sends on it the messages that have been queued.
  void attach(Channel channel);
  bool is_attached() const { return is_attached_.load(); }

  // Returns null if the message was written immediately. Before attach(), it is
  // queued. Throws TransportError after fail().
  std::unique_ptr<TcpRequest> send(int peer, Tag tag, const void* data,
                                   std::size_t bytes);
  // Drops a request; its memory is not accessed again.
  void abandon(TcpRequest* request);

  // Reads answers and writes as much as the connection accepts. Returns false
  // if the connection is broken or closed.
  bool advance();
  // Same, when the connection is known to be readable.
  bool advance_readable();
  // Whether advance() has work to do.
  bool is_busy() const { return is_busy_.load(std::memory_order_relaxed); }

  // Whether nothing that was sent has been acknowledged for too long.
  bool is_cut_off(AckWatch& watch, std::chrono::steady_clock::time_point now);
  // Fails all current and later requests.
  void fail(const std::string& why);
  // Sends a frame without contents, if nothing else is to be sent.
  void beat();
  // Queues the last frame. Call advance() until is_busy() is false, then
  // close_writing().
  void say_bye();
  void close_writing();

 private:
  // The frame that is being written.
  struct OutgoingFrame {
    FrameHead head{};
    const std::byte* data = nullptr;
    std::size_t written = 0;  // bytes of head and data
    TcpRequest* request = nullptr;
    std::vector<std::byte> owned{};  // copied data of an abandoned request

    std::size_t size() const { return sizeof head + head.part; }
  };

  bool read_answers();
  bool take_answer(const FrameHead& answer);
  bool write();
  ssize_t write_once();
  bool next_frame();
  void begin(TcpRequest* request);
  void continue_with(TcpRequest* request);
  void finish_frame();
  void end(TcpRequest* request);
  void note_busy();

  std::mutex mutex_;
  Channel channel_;
  std::atomic<bool> is_attached_{false};
  std::atomic<bool> is_busy_{false};
  std::string failure_;
  std::size_t eager_bytes_ = kEagerBytes;
  std::size_t unanswered_bytes_ = 0;  // sent since answers were read
  std::uint32_t next_id_ = 1;
  bool is_writing_ = false;
  bool prefers_granted_ = false;
  OutgoingFrame frame_;
  std::deque<FrameHead> notes_;      // frames without contents
  std::deque<TcpRequest*> queue_;    // not started
  std::deque<TcpRequest*> granted_;  // accepted by the peer, to be continued
  std::map<std::uint32_t, TcpRequest*> begun_;
  std::vector<std::byte> unread_;  // incomplete answer
};

}  // namespace sheaf::comm
