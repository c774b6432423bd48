// The part of the inbox that matches messages with receives.

#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_inbox.hpp"

namespace sheaf::comm {

bool Inbox::begin_message(const FrameHead& head) {
  auto message = std::make_shared<Incoming>();
  message->head = head;
  if (head.kind == FrameKind::kBegin &&
      !begun_.emplace(head.id, message).second)
    return false;
  current_ = message;
  const auto line = lines_.find(head.tag);
  if (line == lines_.end() || line->second.waiting.empty()) {
    if (!keep(message)) return false;
  } else {
    TcpRequest* request = line->second.waiting.front();
    line->second.waiting.pop_front();
    drop_line_if_empty(head.tag);
    bind(message, request);
  }
  if (left_ == 0) end_part();
  return true;
}

// Returns false if the peer sends more than this rank is willing to keep.
bool Inbox::keep(const Message& message) {
  if (unexpected_count_.load(std::memory_order_relaxed) ==
          kMostUnexpectedCount ||
      unexpected_bytes_ > kMostUnexpectedBytes) {
    has_too_many_ = true;
    return false;
  }
  message->kept_bytes = message->head.part;
  message->kept =
      std::make_unique_for_overwrite<std::byte[]>(message->kept_bytes);
  lines_[message->head.tag].unexpected.push_back(message);
  unexpected_count_.fetch_add(1, std::memory_order_relaxed);
  unexpected_bytes_ += message->kept_bytes;
  if (is_slow_ || !is_above(/*divisor=*/1)) return true;
  is_slow_ = true;
  answer(FrameKind::kSlow, 0);
  return true;
}

// Whether unexpected messages have reached the limits divided by `divisor`.
bool Inbox::is_above(std::size_t divisor) const {
  return unexpected_bytes_ >= kUnexpectedBytes / divisor ||
         unexpected_count_.load(std::memory_order_relaxed) >=
             kUnexpectedCount / divisor;
}

void Inbox::unkeep(Incoming& message) {
  message.kept.reset();
  unexpected_bytes_ -= message.kept_bytes;
  message.kept_bytes = 0;
  if (!is_slow_ || is_above(/*divisor=*/4)) return;
  is_slow_ = false;
  answer(FrameKind::kFast, 0);
}

void Inbox::bind(const Message& message, TcpRequest* request) {
  const FrameHead& head = message->head;
  if (head.bytes != request->bytes) return refuse(message, request);
  if (message->received)
    std::memcpy(request->data, message->kept.get(), message->received);
  unkeep(*message);
  if (head.kind == FrameKind::kBegin) answer(FrameKind::kGrant, head.id);
  if (message == current_ || message->received < head.bytes)
    message->target = request;  // end_part() ends it
  else
    request->end();
}

void Inbox::refuse(const Message& message, TcpRequest* request) {
  const FrameHead& head = message->head;
  message->is_discarded = true;
  unkeep(*message);
  if (head.kind == FrameKind::kBegin) {
    answer(FrameKind::kRefuse, head.id);
    begun_.erase(head.id);
  }
  request->fail(concat("a message of rank ", request->peer, " has ", head.bytes,
                       " bytes, expected ", request->bytes));
}

void Inbox::cancel_message(std::uint32_t id) {
  const auto found = begun_.find(id);
  if (found == begun_.end()) return;
  const Message message = found->second;
  begun_.erase(found);
  if (TcpRequest* target = std::exchange(message->target, nullptr))
    return target->fail(concat("rank ", target->peer,
                               " has canceled a message of ",
                               message->head.bytes, " bytes"));
  const auto line = lines_.find(message->head.tag);
  if (line == lines_.end() || std::erase(line->second.unexpected, message) == 0)
    return;
  unexpected_count_.fetch_sub(1, std::memory_order_relaxed);
  unkeep(*message);
  drop_line_if_empty(message->head.tag);
}

void Inbox::answer(FrameKind kind, std::uint32_t id) {
  const FrameHead head{.kind = kind, .id = id};
  const auto* bytes = reinterpret_cast<const std::byte*>(&head);
  answers_.insert(answers_.end(), bytes, bytes + sizeof head);
  flush_answers();
}

bool Inbox::flush_answers() {
  if (!channel_ || !channel_.flush()) return !channel_;
  if (answers_.empty()) return true;
  const iovec part{answers_.data(), answers_.size()};
  const ssize_t sent = channel_.write(&part, 1);
  if (sent < 0) return is_for_later(errno);
  answers_.erase(answers_.begin(), answers_.begin() + sent);
  return true;
}

void Inbox::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = why;
  is_closed_ = true;
  channel_.close();
  if (current_ && current_->target)
    std::exchange(current_->target, nullptr)->fail(why);
  for (const auto& [id, message] : begun_)
    if (message->target) std::exchange(message->target, nullptr)->fail(why);
  for (auto& [tag, line] : lines_) {
    for (TcpRequest* request : line.waiting) request->fail(why);
    line.waiting.clear();
    // Incomplete messages can no longer be completed.
    const auto lost = std::erase_if(line.unexpected, [](const Message& m) {
      return m->received < m->head.bytes || m->head.kind == FrameKind::kBegin;
    });
    unexpected_count_.fetch_sub(lost, std::memory_order_relaxed);
  }
  std::erase_if(
      lines_, [](const auto& item) { return item.second.unexpected.empty(); });
  begun_.clear();
  current_.reset();
}

std::string Inbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Inbox::drop_line_if_empty(Tag tag) {
  const auto line = lines_.find(tag);
  if (line != lines_.end() && line->second.waiting.empty() &&
      line->second.unexpected.empty())
    lines_.erase(line);
}

}  // namespace sheaf::comm
