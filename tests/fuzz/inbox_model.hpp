#pragma once
// What an inbox must do: MPI's rules for matching, and those of the wire
// protocol (sheaf/comm/transport/tcp_wire.hpp), written as plainly as possible.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sheaf/comm/transport/tcp_wire.hpp"
#include "tests/fuzz/peer_end.hpp"

namespace sheaf::fuzz {

struct ModelReceive {
  enum class State { kInProgress, kDone, kFailed };
  comm::Tag tag = 0;
  std::size_t bytes = 0;
  State state = State::kInProgress;
  Bytes data{};  // when it is done
};

class InboxModel {
 public:
  // Returns false after a failure, if no message has arrived.
  bool receive(const std::shared_ptr<ModelReceive>& receive) {
    Line& line = lines_[receive->tag];
    if (!line.unexpected.empty()) {
      const auto message = line.unexpected.front();
      line.unexpected.pop_front();
      match(message, receive);
      return true;
    }
    if (!has_failed_) line.waiting.push_back(receive);
    return !has_failed_;
  }

  void abandon(const std::shared_ptr<ModelReceive>& receive) {
    std::erase(lines_[receive->tag].waiting, receive);
    const auto let_go = [&](Message& message) {
      if (message.receive != receive) return;
      message.receive = nullptr;
      message.is_discarded = true;
    };
    if (current_) let_go(*current_);
    for (auto& [id, message] : begun_) let_go(*message);
  }

  std::optional<std::size_t> probe(comm::Tag tag) {
    const auto& unexpected = lines_[tag].unexpected;
    if (unexpected.empty()) return std::nullopt;
    return unexpected.front()->head.bytes;
  }

  // Bytes from the peer. Returns false if they break the protocol.
  bool read(const Bytes& bytes) {
    stream_.insert(stream_.end(), bytes.begin(), bytes.end());
    comm::FrameHead head;
    for (;;) {
      if (current_) {
        const std::size_t part = std::min(left_, stream_.size());
        current_->data.insert(current_->data.end(), stream_.begin(),
                              stream_.begin() + static_cast<long>(part));
        stream_.erase(stream_.begin(),
                      stream_.begin() + static_cast<long>(part));
        left_ -= part;
        if (left_ > 0) return true;
        end_part();
      }
      if (stream_.size() < sizeof head) return true;
      std::memcpy(&head, stream_.data(), sizeof head);
      stream_.erase(stream_.begin(), stream_.begin() + sizeof head);
      if (!comm::is_valid(head) || !take(head)) return false;
    }
  }

  void fail() {
    if (has_failed_) return;
    has_failed_ = true;
    for (auto& [tag, line] : lines_) {
      for (auto& one : line.waiting) one->state = ModelReceive::State::kFailed;
      line.waiting.clear();
      std::erase_if(line.unexpected, [](const auto& message) {
        return message->data.size() < message->head.bytes;
      });
    }
    if (current_) give_up(*current_);
    for (auto& [id, message] : begun_) give_up(*message);
    current_ = nullptr;
    begun_.clear();
  }

  bool has_left() const { return has_left_; }
  // Answers to the peer, in order.
  const std::vector<std::pair<comm::FrameKind, std::uint32_t>>& answers()
      const {
    return answers_;
  }

 private:
  struct Message {
    comm::FrameHead head{};
    Bytes data{};
    std::shared_ptr<ModelReceive> receive{};
    bool is_discarded = false;
    bool is_in_parts() const { return head.kind == comm::FrameKind::kBegin; }
  };
  struct Line {
    std::deque<std::shared_ptr<ModelReceive>> waiting;
    std::deque<std::shared_ptr<Message>> unexpected;
  };

  bool take(const comm::FrameHead& head) {
    left_ = head.part;
    switch (head.kind) {
      case comm::FrameKind::kMore: {
        const auto found = begun_.find(head.id);
        if (found == begun_.end()) return false;
        current_ = found->second;
        return (current_->receive || current_->is_discarded) &&
               head.part <= current_->head.bytes - current_->data.size();
      }
      case comm::FrameKind::kCancel:
        cancel(head.id);
        return true;
      case comm::FrameKind::kBye:
        has_left_ = true;
        return true;
      case comm::FrameKind::kBeat:
        return true;
      default:
        return begin(head);
    }
  }

  bool begin(const comm::FrameHead& head) {
    current_ = std::make_shared<Message>();
    current_->head = head;
    if (current_->is_in_parts() && !begun_.emplace(head.id, current_).second)
      return false;
    Line& line = lines_[head.tag];
    if (line.waiting.empty()) {
      line.unexpected.push_back(current_);
    } else {
      const auto receive = line.waiting.front();
      line.waiting.pop_front();
      match(current_, receive);
    }
    return true;
  }

  void match(const std::shared_ptr<Message>& message,
             const std::shared_ptr<ModelReceive>& receive) {
    if (message->head.bytes != receive->bytes) {
      receive->state = ModelReceive::State::kFailed;
      message->is_discarded = true;
      if (message->is_in_parts()) {
        answers_.push_back({comm::FrameKind::kRefuse, message->head.id});
        begun_.erase(message->head.id);
      }
      return;
    }
    message->receive = receive;
    if (message->is_in_parts())
      answers_.push_back({comm::FrameKind::kGrant, message->head.id});
    if (message != current_) complete(*message);
  }

  void complete(Message& message) {
    if (message.data.size() < message.head.bytes || !message.receive) return;
    message.receive->data = message.data;
    message.receive->state = ModelReceive::State::kDone;
    message.receive = nullptr;
  }

  void end_part() {
    const auto message = std::exchange(current_, nullptr);
    if (message->data.size() < message->head.bytes) return;
    if (message->is_in_parts()) begun_.erase(message->head.id);
    complete(*message);
  }

  void cancel(std::uint32_t id) {
    const auto found = begun_.find(id);
    if (found == begun_.end()) return;
    const auto message = found->second;
    begun_.erase(found);
    give_up(*message);
    std::erase(lines_[message->head.tag].unexpected, message);
  }

  static void give_up(Message& message) {
    if (message.receive) message.receive->state = ModelReceive::State::kFailed;
    message.receive = nullptr;
  }

  Bytes stream_;
  std::shared_ptr<Message> current_;  // whose part is being read
  std::size_t left_ = 0;
  std::map<std::uint32_t, std::shared_ptr<Message>> begun_;
  std::map<comm::Tag, Line> lines_;
  std::vector<std::pair<comm::FrameKind, std::uint32_t>> answers_;
  bool has_left_ = false;
  bool has_failed_ = false;
};

}  // namespace sheaf::fuzz
