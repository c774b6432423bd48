#include "sheaf/comm/transport/tcp_inbox.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kScratch = 64 << 10;
constexpr int kReadsAtOnce = 32;

}  // namespace

void Inbox::attach(Channel channel) {
  const std::lock_guard lock(mutex_);
  // A second connection does not come from the peer.
  if (channel_ || !failure_.empty()) return;
  channel_ = std::move(channel);
  is_attached_ = true;
  channel_.flush();  // errors are ignored here; reading will detect them
}

std::unique_ptr<TcpRequest> Inbox::receive(int peer, Tag tag, void* data,
                                           std::size_t bytes) {
  auto request = std::make_unique<TcpRequest>();
  request->peer = peer;
  request->tag = tag;
  request->data = static_cast<std::byte*>(data);
  request->bytes = bytes;
  const std::lock_guard lock(mutex_);
  Line& line = lines_[tag];
  if (!line.unexpected.empty()) {
    const Message message = std::move(line.unexpected.front());
    line.unexpected.pop_front();
    unexpected_count_.fetch_sub(1, std::memory_order_relaxed);
    drop_line_if_empty(tag);
    bind(message, request.get());
  } else if (failure_.empty()) {
    line.waiting.push_back(request.get());
  } else {
    drop_line_if_empty(tag);
    throw TransportError(failure_);
  }
  return request;
}

void Inbox::abandon(TcpRequest* request) {
  const std::lock_guard lock(mutex_);
  if (const auto line = lines_.find(request->tag); line != lines_.end()) {
    std::erase(line->second.waiting, request);
    drop_line_if_empty(request->tag);
  }
  const auto let_go = [&](Incoming& message) {
    if (message.target != request) return;
    message.target = nullptr;
    message.is_discarded = true;
  };
  if (current_) let_go(*current_);
  for (const auto& [id, message] : begun_) let_go(*message);
  delete request;
}

std::optional<std::size_t> Inbox::probe(Tag tag) {
  if (unexpected_count_.load(std::memory_order_relaxed) == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto line = lines_.find(tag);
  if (line == lines_.end() || line->second.unexpected.empty()) return {};
  return line->second.unexpected.front()->head.bytes;
}

bool Inbox::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !channel_) return true;
  bool is_short = false;
  for (int i = 0; !is_short && (i < kReadsAtOnce || channel_.has_buffered());
       ++i)
    if (!read_once(is_short)) return false;
  return flush_answers();
}

// Reads the rest of the current part directly to its destination, and the bytes
// after it, often several small messages, to the staging buffer.
bool Inbox::read_once(bool& is_short) {
  iovec parts[2];
  int count = 0;
  std::size_t direct = 0;
  if (current_) {
    parts[count++] = {place(direct), 0};
    direct = std::min(direct, left_);
    parts[0].iov_len = direct;
  }
  std::size_t room = direct;
  if (direct == left_) {
    parts[count++] = {staging_.data() + staged_, kStaging - staged_};
    room += kStaging - staged_;
  }
  const ssize_t got = channel_.read(parts, count);
  is_short = got < static_cast<ssize_t>(room) && !channel_.has_buffered();
  if (got < 0) {
    const int error = errno;
    if (error == EBADMSG) is_invalid_ = true;
    return is_for_later(error);
  }
  if (got == 0) return false;
  const auto bytes = static_cast<std::size_t>(got);
  if (current_) deliver(std::min(bytes, direct));
  staged_ += bytes - std::min(bytes, direct);
  return parse(0);
}

bool Inbox::parse(std::size_t at) {
  while (at < staged_) {
    if (current_) {
      std::size_t room = 0;
      std::byte* to = place(room);
      const std::size_t part = std::min({room, left_, staged_ - at});
      std::memcpy(to, staging_.data() + at, part);
      at += part;
      deliver(part);
      continue;
    }
    FrameHead head;
    if (staged_ - at < sizeof head) break;
    std::memcpy(&head, staging_.data() + at, sizeof head);
    at += sizeof head;
    if (!take_frame(head)) {
      is_invalid_ = true;
      return false;
    }
  }
  if (at > 0 && at < staged_)
    std::memmove(staging_.data(), staging_.data() + at, staged_ - at);
  staged_ -= at;
  return true;
}

// A frame that does not follow the protocol ends the connection.
bool Inbox::take_frame(const FrameHead& head) {
  if (!is_valid(head)) return false;
  left_ = head.part;
  switch (head.kind) {
    case FrameKind::kMore:
      return continue_message(head);
    case FrameKind::kCancel:
      cancel_message(head.id);
      return true;
    case FrameKind::kBye:
      has_left_ = true;
      return true;
    case FrameKind::kBeat:
      return true;
    default:
      return begin_message(head);
  }
}

// The rest of a message comes only after a grant, when it has a destination.
bool Inbox::continue_message(const FrameHead& head) {
  const auto found = begun_.find(head.id);
  if (found == begun_.end()) return false;
  current_ = found->second;
  return (current_->target || current_->is_discarded) &&
         head.part <= current_->head.bytes - current_->received;
}

// Destination of the next bytes of the current message; `room` is set to the
// number of bytes that fit.
std::byte* Inbox::place(std::size_t& room) {
  Incoming& message = *current_;
  if (message.is_discarded) {
    scratch_.resize(kScratch);
    room = kScratch;
    return scratch_.data();
  }
  room = left_;
  return (message.target ? message.target->data : message.kept.get()) +
         message.received;
}

void Inbox::deliver(std::size_t bytes) {
  current_->received += bytes;
  left_ -= bytes;
  if (left_ == 0) end_part();
}

void Inbox::end_part() {
  const Message message = std::move(current_);
  current_.reset();
  if (message->received < message->head.bytes) return;
  if (message->head.kind == FrameKind::kBegin) begun_.erase(message->head.id);
  if (message->target) std::exchange(message->target, nullptr)->end();
}

}  // namespace sheaf::comm
