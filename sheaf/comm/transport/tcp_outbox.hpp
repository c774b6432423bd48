#pragma once
// The messages to one peer.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sheaf/comm/transport/tcp_socket.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"

namespace sheaf::comm {

class Outbox {
 public:
  // Takes over the connection.
  void attach(Socket socket);
  bool is_attached() const { return is_attached_.load(); }
  int fd() const { return socket_.fd(); }

  // Null when the message has left at once. TransportError after fail().
  std::unique_ptr<TcpRequest> send(int peer, Tag tag, const void* data,
                                   std::size_t bytes);
  // Forgets a request; its memory is not looked at again.
  void abandon(TcpRequest* request);

  // Reads answers and writes what the connection takes. False when the
  // connection is found broken or closed.
  bool advance();
  // The same after word that there is something to read.
  bool advance_readable();
  // Whether advance() has something to do.
  bool is_busy() const { return is_busy_.load(std::memory_order_relaxed); }

  // Every request fails, and every later one.
  void fail(const std::string& why);
  // The last frame. advance() until it is not busy, then close_writing().
  void say_bye();
  void close_writing();

 private:
  // What is being written.
  struct Frame {
    FrameHead head{};
    const std::byte* data = nullptr;
    std::size_t written = 0;  // of head and data
    TcpRequest* request = nullptr;
    std::vector<std::byte> owned{};  // data of a request that was given up

    std::size_t size() const { return sizeof head + head.part; }
  };

  bool read_answers();
  void take_answer(const FrameHead& answer);
  bool write();
  ssize_t write_once();
  bool next_frame();
  void begin(TcpRequest* request);
  void continue_with(TcpRequest* request);
  void finish_frame();
  void end(TcpRequest* request);
  void note_busy();

  std::mutex mutex_;
  Socket socket_;
  std::atomic<bool> is_attached_{false};
  std::atomic<bool> is_busy_{false};
  std::string failure_;
  std::size_t eager_bytes_ = kEagerBytes;
  std::uint32_t next_id_ = 1;
  bool is_writing_ = false;
  bool prefers_granted_ = false;
  Frame frame_;
  std::deque<FrameHead> notes_;      // frames without contents
  std::deque<TcpRequest*> queue_;    // not begun
  std::deque<TcpRequest*> granted_;  // to be continued
  std::map<std::uint32_t, TcpRequest*> begun_;
  std::vector<std::byte> unread_;  // a part of an answer
};

}  // namespace sheaf::comm
