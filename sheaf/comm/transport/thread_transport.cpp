#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

using Message = std::vector<std::byte>;

// All messages in transit to one rank, by (sender, tag), oldest first. Sends
// are buffered and complete immediately.
class Mailbox {
 public:
  void put(int from, Tag tag, const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    const std::lock_guard lock(mutex_);
    queues_[{tag, from}].emplace_back(begin, begin + bytes);
  }

  // Receives of one (sender, tag) are served in the order of their tickets.
  std::uint64_t ticket(int from, Tag tag) {
    const std::lock_guard lock(mutex_);
    return issued_[{tag, from}]++;
  }

  std::optional<Message> take(int from, Tag tag, std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[{tag, from}];
    auto& served = served_[{tag, from}];
    if (queue.empty() || served != ticket) return std::nullopt;
    ++served;
    Message message = std::move(queue.front());
    queue.pop_front();
    return message;
  }

  std::optional<Transport::Arrived> probe(Tag tag,
                                          std::span<const int> except) {
    const std::lock_guard lock(mutex_);
    for (auto it = queues_.lower_bound({tag, 0});
         it != queues_.end() && it->first.first == tag; ++it) {
      const int peer = it->first.second;
      const auto& queue = it->second;
      if (!queue.empty() &&
          std::find(except.begin(), except.end(), peer) == except.end())
        return Transport::Arrived{peer, queue.front().size()};
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<Tag, int>, std::deque<Message>> queues_;
  std::map<std::pair<Tag, int>, std::uint64_t> issued_;
  std::map<std::pair<Tag, int>, std::uint64_t> served_;
};

struct Pending {
  int peer;
  Tag tag;
  std::uint64_t ticket;
  void* data;
  std::size_t bytes;
};

class ThreadTransport final : public Transport {
 public:
  using Mailboxes = std::vector<Mailbox>;
  ThreadTransport(std::shared_ptr<Mailboxes> boxes, int rank)
      : boxes_(std::move(boxes)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(boxes_->size()); }
  std::string name() const override { return "threads"; }

  Request send(int peer, Tag tag, const void* data,
               std::size_t bytes) override {
    box(peer).put(rank_, tag, data, bytes);
    return {};
  }

  Request receive(int peer, Tag tag, void* data, std::size_t bytes) override {
    auto* pending =
        new Pending{peer, tag, box(rank_).ticket(peer, tag), data, bytes};
    return Request(reinterpret_cast<std::uintptr_t>(pending));
  }

  bool test(Request& request) override {
    if (!request) return true;
    const Pending pending = *reinterpret_cast<Pending*>(request.handle());
    const auto message =
        box(rank_).take(pending.peer, pending.tag, pending.ticket);
    if (!message) return false;
    abandon(request);
    if (message->size() != pending.bytes)
      throw TransportError(concat("a message of rank ", pending.peer, " has ",
                                  message->size(), " bytes, expected ",
                                  pending.bytes));
    if (pending.bytes)
      std::memcpy(pending.data, message->data(), pending.bytes);
    return true;
  }

  void abandon(Request& request) noexcept override {
    if (!request) return;
    delete reinterpret_cast<Pending*>(request.handle());
    request.clear();
  }

  std::optional<Arrived> probe(Tag tag, std::span<const int> except) override {
    return box(rank_).probe(tag, except);
  }

 private:
  Mailbox& box(int rank) { return (*boxes_)[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<Mailboxes> boxes_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks) {
  auto boxes = std::make_shared<ThreadTransport::Mailboxes>(
      static_cast<std::size_t>(ranks));
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(boxes, rank));
  return transports;
}

}  // namespace sheaf::comm
