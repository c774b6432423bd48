#include "sheaf/comm/transport/tcp_outbox.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {

void Outbox::attach(Channel channel) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  channel_ = std::move(channel);
  is_attached_ = true;
  write();  // errors are ignored here; reading will detect them
  note_busy();
}

std::unique_ptr<TcpRequest> Outbox::send(int peer, Tag tag, const void* data,
                                         std::size_t bytes) {
  auto request = std::make_unique<TcpRequest>();
  request->is_send = true;
  request->peer = peer;
  request->tag = tag;
  request->data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  request->bytes = bytes;
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw TransportError(failure_);
  queue_.push_back(request.get());
  // Write errors are ignored here; reading will detect them.
  if (!is_writing_ && channel_) write();
  note_busy();
  if (!request->is_in_progress()) request.reset();
  return request;
}

void Outbox::abandon(TcpRequest* request) {
  const std::lock_guard lock(mutex_);
  std::erase(queue_, request);
  std::erase(granted_, request);
  const bool is_begun = request->id && begun_.erase(request->id) > 0;
  if (is_writing_ && frame_.request == request) {
    // A frame that has been started must be completed, from a copy of its data.
    frame_.owned.assign(frame_.data, frame_.data + frame_.head.part);
    frame_.data = frame_.owned.data();
    frame_.request = nullptr;
  }
  if (is_begun)
    notes_.push_back({.kind = FrameKind::kCancel, .id = request->id});
  delete request;
  note_busy();
}

bool Outbox::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !channel_) return true;
  const bool is_well = (begun_.empty() || read_answers()) && write();
  note_busy();
  return is_well;
}

bool Outbox::advance_readable() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !channel_) return true;
  const bool is_well = read_answers() && write();
  note_busy();
  return is_well;
}

bool Outbox::read_answers() {
  std::byte bytes[4096];
  const iovec part{bytes, sizeof bytes};
  do {
    const ssize_t got = channel_.read(&part, 1);
    if (got < 0 && is_for_later(errno)) break;
    if (got <= 0) return false;
    unread_.insert(unread_.end(), bytes, bytes + got);
  } while (channel_.has_buffered());
  std::size_t at = 0;
  for (; unread_.size() - at >= sizeof(FrameHead); at += sizeof(FrameHead)) {
    FrameHead answer;
    std::memcpy(&answer, unread_.data() + at, sizeof answer);
    if (!take_answer(answer)) return false;
  }
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<long>(at));
  return true;
}

// An answer that does not follow the protocol ends the connection.
bool Outbox::take_answer(const FrameHead& answer) {
  if (!is_valid_answer(answer)) return false;
  if (answer.kind == FrameKind::kSlow) eager_bytes_ = 0;
  if (answer.kind == FrameKind::kFast) eager_bytes_ = kEagerBytes;
  const auto found = begun_.find(answer.id);
  if (found == begun_.end()) return true;  // canceled meanwhile
  TcpRequest* request = found->second;
  if (request->is_granted || request->is_refused) return false;
  const bool is_being_written = is_writing_ && frame_.request == request;
  if (answer.kind == FrameKind::kGrant) {
    request->is_granted = true;
    if (!is_being_written) granted_.push_back(request);
  } else if (answer.kind == FrameKind::kRefuse) {
    request->is_refused = true;
    if (!is_being_written) end(request);
  }
  return true;
}

bool Outbox::write() {
  if (!channel_.flush()) return false;
  while (is_writing_ || next_frame()) {
    const ssize_t sent = write_once();
    if (sent < 0) return is_for_later(errno);
    frame_.written += static_cast<std::size_t>(sent);
    if (frame_.written == frame_.size()) finish_frame();
  }
  return true;
}

ssize_t Outbox::write_once() {
  iovec parts[2];
  const std::size_t head =
      std::min(frame_.written, sizeof frame_.head);  // header bytes written
  const std::size_t body = frame_.written - head;
  parts[0] = {reinterpret_cast<std::byte*>(&frame_.head) + head,
              sizeof frame_.head - head};
  parts[1] = {const_cast<std::byte*>(frame_.data) + body,
              frame_.head.part - body};
  return channel_.write(parts, frame_.head.part ? 2 : 1);
}

// Alternates between parts of large messages and new messages. A program may
// send many without ever waiting for them.
bool Outbox::next_frame() {
  if (unanswered_bytes_ >= kUnansweredBytes) {
    unanswered_bytes_ = 0;
    read_answers();  // the next advance() detects errors
  }
  if (!notes_.empty()) {
    frame_ = {.head = notes_.front()};
    notes_.pop_front();
  } else if (!granted_.empty() && (prefers_granted_ || queue_.empty())) {
    continue_with(granted_.front());
    granted_.pop_front();
    prefers_granted_ = false;
  } else if (!queue_.empty()) {
    begin(queue_.front());
    queue_.pop_front();
    prefers_granted_ = true;
  } else {
    return false;
  }
  is_writing_ = true;
  return true;
}

void Outbox::begin(TcpRequest* request) {
  const bool is_whole = request->bytes <= eager_bytes_;
  if (!is_whole) {
    request->id = next_id_++;
    if (next_id_ == 0) next_id_ = 1;  // 0: not in parts
    begun_[request->id] = request;
  }
  frame_ = {.head = {.kind = is_whole ? FrameKind::kWhole : FrameKind::kBegin,
                     .tag = request->tag,
                     .id = request->id,
                     .part = static_cast<std::uint32_t>(
                         std::min(request->bytes, eager_bytes_)),
                     .bytes = request->bytes},
            .data = request->data,
            .request = request};
}

void Outbox::continue_with(TcpRequest* request) {
  const std::size_t part = std::min(request->bytes - request->sent, kPartBytes);
  frame_ = {.head = {.kind = FrameKind::kMore,
                     .tag = request->tag,
                     .id = request->id,
                     .part = static_cast<std::uint32_t>(part),
                     .bytes = request->bytes},
            .data = request->data + request->sent,
            .request = request};
}

void Outbox::finish_frame() {
  is_writing_ = false;
  TcpRequest* request = std::exchange(frame_.request, nullptr);
  unanswered_bytes_ += frame_.size();
  if (!request) return;
  request->sent += frame_.head.part;
  if (request->is_refused || request->sent == request->bytes)
    end(request);
  else if (request->is_granted)
    granted_.push_back(request);
}

void Outbox::end(TcpRequest* request) {
  begun_.erase(request->id);
  std::erase(granted_, request);
  request->end();
}

void Outbox::note_busy() {
  is_busy_.store(is_writing_ || !notes_.empty() || !queue_.empty() ||
                     !begun_.empty() || channel_.has_unsent(),
                 std::memory_order_relaxed);
}

bool Outbox::is_cut_off(AckWatch& watch,
                        std::chrono::steady_clock::time_point now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock && channel_ && watch.is_cut_off(channel_.fd(), now);
}

void Outbox::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = why;
  if (is_writing_ && frame_.request && !frame_.request->id)
    frame_.request->fail(why);
  for (TcpRequest* request : queue_) request->fail(why);
  for (const auto& [id, request] : begun_) request->fail(why);
  is_writing_ = false;
  queue_.clear();
  granted_.clear();
  begun_.clear();
  notes_.clear();
  channel_ = {};
  note_busy();
}

void Outbox::beat() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !channel_ || is_busy()) return;
  notes_.push_back({.kind = FrameKind::kBeat});
  write();
  note_busy();
}

void Outbox::say_bye() {
  const std::lock_guard lock(mutex_);
  if (!channel_) return;
  notes_.push_back({.kind = FrameKind::kBye});
  write();
  note_busy();
}

void Outbox::close_writing() {
  const std::lock_guard lock(mutex_);
  if (channel_) shutdown(channel_.fd(), SHUT_WR);
}

}  // namespace sheaf::comm
