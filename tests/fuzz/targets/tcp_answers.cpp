// The sending side of the TCP transport, whose peer reads slowly and gives any
// answers, while this rank sends and abandons. What the peer reads must follow
// the wire protocol and contain every message once, in order and unchanged.
// parser: sheaf/comm/transport/tcp_outbox.cpp
#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_outbox.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/peer_end.hpp"

namespace {

using namespace sheaf::comm;
using sheaf::fuzz::Bytes;
using sheaf::fuzz::ByteSource;
using State = TcpRequest::State;

constexpr std::size_t kMostMessages = 60;
constexpr int kMostLarge = 2;  // of more than kEagerBytes

struct Message {
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[]> data{};  // freed when it is abandoned or done
  TcpRequest* request = nullptr;        // null: done
  bool is_abandoned = false;
  // As the peer sees it.
  bool has_begun = false;
  std::uint32_t id = 0;
  std::size_t read = 0;
  bool is_canceled = false;
};

class Trial {
 public:
  Trial() : Trial(sheaf::fuzz::make_socket_pair()) {}
  ~Trial() {
    for (Message& one : messages_)
      if (one.request) outbox_.abandon(one.request);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void step(ByteSource& source) {
    const std::uint8_t choice = source.byte();
    switch (choice % 16) {
      case 0:
      case 1:
      case 2:
        send(size_from(source, choice / 16));
        break;
      case 3:
      case 4:
        answer_one(source, FrameKind::kGrant);
        break;
      case 5:
        answer_one(source, FrameKind::kRefuse);
        break;
      case 6:
        answer({.kind = choice & 16 ? FrameKind::kSlow : FrameKind::kFast});
        break;
      case 7:
        if (choice >= 240) answer(source.value<FrameHead>());
        if (choice < 32) answer_partly(source.take(choice / 2));
        break;
      case 8:
      case 9:
        read(source.value<std::uint16_t>());
        break;
      case 10:
        if (!messages_.empty()) abandon(source.below(messages_.size()));
        break;
      case 11:
        if (choice >= 224) end(choice >= 240);
        break;
      case 12:
        if (choice >= 224)
          say_bye();
        else
          outbox_.beat();
        break;
      case 13:
        advance(/*is_readable=*/false);
        break;
      default:
        advance(/*is_readable=*/true);
    }
    collect();
  }

  // The peer grants everything and reads to the end.
  void finish() {
    for (bool is_moving = true; is_moving && is_open_; collect()) {
      for (const Message& one : messages_)
        if (one.id && !answer_to(one) && !one.is_canceled)
          answer({.kind = FrameKind::kGrant, .id = one.id});
      advance(/*is_readable=*/true);
      is_moving = read(1 << 16) || sheaf::fuzz::has_news(fd_);
    }
    if (!is_open_ || is_uncertain_ || !partial_.empty()) return;
    SHEAF_FUZZ_CHECK(!outbox_.is_busy());
    for (const Message& one : messages_)
      SHEAF_FUZZ_CHECK(one.is_abandoned ||
                       answer_to(one) == FrameKind::kRefuse ||
                       (!one.request && one.read == one.bytes));
    peer_.close();
    SHEAF_FUZZ_CHECK(!outbox_.advance_readable());
  }

 private:
  explicit Trial(std::pair<Socket, Socket> ends)
      : fd_(ends.first.fd()), peer_(std::move(ends.second)) {
    outbox_.attach(Channel(std::move(ends.first)));
  }

  std::size_t size_from(ByteSource& source, std::uint8_t form) {
    if (form == 15 && large_++ < kMostLarge)
      return kEagerBytes + source.value<std::uint16_t>() * std::size_t{10};
    return form < 8 ? source.byte() : source.value<std::uint16_t>();
  }

  // The number of a message is its tag.
  void send(std::size_t bytes) {
    if (messages_.size() == kMostMessages) return;
    const std::size_t number = messages_.size();
    Message one{.bytes = bytes, .data = std::make_unique<std::byte[]>(bytes)};
    std::copy_n(sheaf::fuzz::pattern(number), bytes, one.data.get());
    try {
      one.request =
          outbox_
              .send(/*peer=*/1, static_cast<Tag>(number), one.data.get(), bytes)
              .release();
    } catch (const sheaf::TransportError&) {
      SHEAF_FUZZ_CHECK(!is_open_);
      return;
    }
    SHEAF_FUZZ_CHECK(is_open_);
    messages_.push_back(std::move(one));
  }

  void abandon(std::size_t number) {
    Message& one = messages_[number];
    if (!one.request) return;
    outbox_.abandon(std::exchange(one.request, nullptr));
    one.data.reset();
    one.is_abandoned = true;
  }

  // As Transport::test() does.
  void collect() {
    for (Message& one : messages_) {
      if (!one.request || one.request->is_in_progress()) continue;
      const bool has_failed = one.request->state == State::kFailed;
      SHEAF_FUZZ_CHECK(!has_failed || !is_open_);
      one.is_abandoned = one.is_abandoned || has_failed;
      delete std::exchange(one.request, nullptr);
      one.data.reset();
    }
  }

  // For a message that the peer knows, mostly one without an answer.
  void answer_one(ByteSource& source, FrameKind kind) {
    const std::uint8_t choice = source.byte();
    std::vector<std::uint32_t> ids;
    for (const Message& one : messages_)
      if (one.id && (choice >= 240 || !answered_.contains(one.id)))
        ids.push_back(one.id);
    if (!ids.empty()) answer({.kind = kind, .id = ids[choice % ids.size()]});
  }

  void answer(const FrameHead& head) {
    if (!is_open_ || !partial_.empty()) return;
    if (!peer_.write(&head, sizeof head)) return;
    note_answer(head);
  }

  // Part of an answer, which is completed by the next parts.
  void answer_partly(sheaf::fuzz::Input input) {
    const auto bytes = std::as_bytes(input);
    if (!is_open_ || bytes.empty() || !peer_.write(bytes.data(), bytes.size()))
      return;
    partial_.insert(partial_.end(), bytes.begin(), bytes.end());
    FrameHead head;
    while (partial_.size() >= sizeof head) {
      std::memcpy(&head, partial_.data(), sizeof head);
      partial_.erase(partial_.begin(), partial_.begin() + sizeof head);
      note_answer(head);
    }
  }

  // A wrong answer ends the connection. One that comes twice does so unless
  // the message has ended meanwhile; one that comes too early may be ignored.
  void note_answer(const FrameHead& head) {
    if (!is_valid_answer(head)) {
      must_fail_ = true;
      return;
    }
    if (head.id == 0) return;
    const auto message =
        std::find_if(messages_.begin(), messages_.end(),
                     [&](const Message& one) { return one.id == head.id; });
    const bool is_first = answered_.emplace(head.id, head.kind).second;
    is_uncertain_ = is_uncertain_ || !is_first || message == messages_.end();
  }

  std::optional<FrameKind> answer_to(const Message& one) const {
    const auto found = answered_.find(one.id);
    return found == answered_.end() ? std::nullopt
                                    : std::optional(found->second);
  }

  void advance(bool is_readable) {
    if (!is_open_) return;
    const bool is_open =
        is_readable ? outbox_.advance_readable() : outbox_.advance();
    SHEAF_FUZZ_CHECK(is_open || must_fail_ || is_uncertain_);
    if (is_open && is_readable && must_fail_)
      SHEAF_FUZZ_CHECK(sheaf::fuzz::has_news(fd_));
    if (!is_open) fail();
  }

  void end(bool is_by_peer) {
    if (!is_open_) return;
    if (is_by_peer) {
      while (read(1 << 16)) {
      }
      peer_.close();
      while (outbox_.advance_readable()) {
      }
    }
    fail();
  }

  void fail() {
    is_open_ = false;
    outbox_.fail("the connection was closed");
    SHEAF_FUZZ_CHECK(!outbox_.is_busy());
  }

  void say_bye() {
    if (is_open_) outbox_.say_bye();
    may_bye_ = true;
  }

  bool read(std::size_t most) {
    const Bytes bytes = peer_.read(most);
    stream_.insert(stream_.end(), bytes.begin(), bytes.end());
    while (take_frame()) {
    }
    return !bytes.empty();
  }

  bool take_frame() {
    FrameHead head;
    if (stream_.size() < sizeof head) return false;
    std::memcpy(&head, stream_.data(), sizeof head);
    SHEAF_FUZZ_CHECK(is_valid(head));
    if (stream_.size() < sizeof head + head.part) return false;
    const auto data = stream_.begin() + sizeof head;
    take_frame(head, {data, data + head.part});
    stream_.erase(stream_.begin(), data + head.part);
    return true;
  }

  void take_frame(const FrameHead& head, const Bytes& data) {
    switch (head.kind) {
      case FrameKind::kCancel:
        return take_cancel(head.id);
      case FrameKind::kBye:
        SHEAF_FUZZ_CHECK(may_bye_);
        return;
      case FrameKind::kBeat:
        return;
      default:
        break;
    }
    SHEAF_FUZZ_CHECK(head.tag < messages_.size());
    Message& one = messages_[head.tag];
    SHEAF_FUZZ_CHECK(head.bytes == one.bytes && !one.is_canceled);
    if (head.kind == FrameKind::kMore) {
      SHEAF_FUZZ_CHECK(one.has_begun && one.id == head.id &&
                       answer_to(one) == FrameKind::kGrant);
    } else {
      begin(one, head);
    }
    SHEAF_FUZZ_CHECK(head.part <= one.bytes - one.read);
    SHEAF_FUZZ_CHECK(data.empty() ||
                     std::memcmp(data.data(),
                                 sheaf::fuzz::pattern(head.tag) + one.read,
                                 data.size()) == 0);
    one.read += data.size();
  }

  // Messages begin in the order in which they were sent.
  void begin(Message& one, const FrameHead& head) {
    SHEAF_FUZZ_CHECK(!one.has_begun && head.tag >= next_);
    for (; next_ < head.tag; ++next_)
      SHEAF_FUZZ_CHECK(messages_[next_].is_abandoned);
    ++next_;
    one.has_begun = true;
    one.id = head.id;
    SHEAF_FUZZ_CHECK((head.id != 0) == (head.kind == FrameKind::kBegin));
  }

  void take_cancel(std::uint32_t id) {
    for (Message& one : messages_)
      if (one.id == id && id != 0) {
        SHEAF_FUZZ_CHECK(one.is_abandoned && !one.is_canceled);
        one.is_canceled = true;
        return;
      }
    SHEAF_FUZZ_CHECK(!"a canceled message has begun");
  }

  const int fd_;
  sheaf::fuzz::PeerEnd peer_;
  Outbox outbox_;
  std::vector<Message> messages_;
  int large_ = 0;
  Bytes stream_;   // bytes that the peer has read, not parsed yet
  Tag next_ = 0;   // message that is expected to begin
  Bytes partial_;  // part of an answer that was written
  std::map<std::uint32_t, FrameKind> answered_;  // the first answer to each id
  bool must_fail_ = false;
  bool is_uncertain_ = false;
  bool may_bye_ = false;
  bool is_open_ = true;
};

}  // namespace

SHEAF_FUZZ_TARGET(tcp_answers) {
  ByteSource source(input);
  Trial trial;
  for (int steps = 0; steps < 200 && !source.is_empty(); ++steps)
    trial.step(source);
  trial.finish();
}
