#pragma once
// Messages from one peer and the receives that wait for them.

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/transport/tcp_wire.hpp"

namespace sheaf::comm {

class Inbox {
 public:
  // Takes the peer's connection and tells the peer that it is accepted. The
  // peer sends nothing before, so no message of it comes from a connection that
  // is not attached.
  void attach(Channel channel);
  bool is_attached() const { return is_attached_.load(); }
  // Whether more messages may arrive: the connection is open and the peer has
  // not announced its end.
  bool is_open() const { return is_attached_ && !has_left_ && !is_closed_; }
  bool has_left() const { return has_left_; }
  // Whether the peer has broken the protocol, or somebody has changed what it
  // sent.
  bool is_invalid() const { return is_invalid_; }
  // Whether it has sent more than this rank is willing to keep.
  bool has_too_many() const { return has_too_many_; }

  // Throws TransportError after fail(), unless the message has already arrived.
  std::unique_ptr<TcpRequest> receive(int peer, Tag tag, void* data,
                                      std::size_t bytes);
  void abandon(TcpRequest* request);
  // Size of the oldest message with this tag that no receive has matched.
  std::optional<std::size_t> probe(Tag tag);

  // Reads available data. Returns false if the connection is broken or closed.
  bool advance();
  // Fails all current and later receives of messages that have not arrived.
  void fail(const std::string& why);
  // The reason; empty if there was no failure.
  std::string failure() const;

 private:
  struct Incoming {
    FrameHead head{};
    std::size_t received = 0;
    std::size_t kept_bytes = 0;
    std::unique_ptr<std::byte[]> kept{};  // until a receive matches
    TcpRequest* target = nullptr;
    bool is_discarded = false;
  };
  using Message = std::shared_ptr<Incoming>;
  struct Line {  // the queues of one tag; at least one of them is empty
    std::deque<TcpRequest*> waiting;
    std::deque<Message> unexpected;
  };

  bool read_once(bool& is_short);
  bool parse(std::size_t from);
  bool take_frame(const FrameHead& head);
  bool begin_message(const FrameHead& head);
  bool continue_message(const FrameHead& head);
  void cancel_message(std::uint32_t id);
  bool keep(const Message& message);
  bool is_above(std::size_t divisor) const;
  void unkeep(Incoming& message);
  void bind(const Message& message, TcpRequest* request);
  void refuse(const Message& message, TcpRequest* request);
  std::byte* place(std::size_t& room);
  void deliver(std::size_t bytes);
  void end_part();
  void answer(FrameKind kind, std::uint32_t id);
  bool flush_answers();
  void drop_line_if_empty(Tag tag);

  static constexpr std::size_t kStaging = 16 << 10;

  mutable std::mutex mutex_;
  Channel channel_;
  std::atomic<bool> is_attached_{false};
  std::atomic<bool> has_left_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_invalid_{false};
  std::atomic<bool> has_too_many_{false};
  std::string failure_;
  std::unordered_map<Tag, Line> lines_;
  std::map<std::uint32_t, Message> begun_;  // messages in parts, by id
  Message current_;                         // message whose part is being read
  std::size_t left_ = 0;                    // bytes left of that part
  std::size_t staged_ = 0;                  // bytes in staging_
  std::array<std::byte, kStaging> staging_;
  std::vector<std::byte> scratch_;  // for data of discarded messages
  std::vector<std::byte> answers_;  // answers not yet written
  std::size_t unexpected_bytes_ = 0;
  std::atomic<std::size_t> unexpected_count_{0};
  bool is_slow_ = false;
};

}  // namespace sheaf::comm
