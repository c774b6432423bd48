// Frames of the TCP transport, right and wrong ones, cut anywhere, while this
// rank receives, probes and abandons. A model says what each receive must get.
// parser: sheaf/comm/transport/tcp_inbox.cpp
// parser: sheaf/comm/transport/tcp_matching.cpp
#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_inbox.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/inbox_model.hpp"

namespace {

using namespace sheaf::comm;
using sheaf::fuzz::Bytes;
using sheaf::fuzz::ByteSource;
using sheaf::fuzz::ModelReceive;

constexpr std::size_t kMostWritten = 100'000;
constexpr std::size_t kMostRequests = 50;
constexpr std::size_t kTags = 3;

class Trial {
 public:
  Trial() : Trial(sheaf::fuzz::make_socket_pair()) {}
  ~Trial() {
    for (const Receive& one : receives_) inbox_.abandon(one.request);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void step(ByteSource& source) {
    const std::uint8_t choice = source.byte();
    switch (choice % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        write_frame(source, choice / 16);
        break;
      case 5:
        write(std::as_bytes(source.take(1 + choice / 16 * 4)));
        break;
      case 6:
      case 7:
      case 8:
        receive(static_cast<Tag>(choice / 16 % kTags), size_from(source));
        break;
      case 9:
        if (!receives_.empty()) abandon(source.below(receives_.size()));
        break;
      case 10:
        if (!receives_.empty()) collect(source.below(receives_.size()));
        break;
      case 11:
        if (choice / 16 == 15) end(/*is_by_peer=*/source.byte() % 2);
        break;
      default:
        advance();
    }
    check();
  }

  void finish() {
    advance();
    check();
    end(/*is_by_peer=*/true);
    check();
  }

 private:
  struct Receive {
    TcpRequest* request;
    std::shared_ptr<ModelReceive> model;
    std::unique_ptr<std::byte[]> data;  // exactly as many bytes as wanted
  };

  explicit Trial(std::pair<Socket, Socket> ends)
      : fd_(ends.first.fd()), peer_(std::move(ends.second)) {
    inbox_.attach(Channel(std::move(ends.first)));
  }

  static std::size_t size_from(ByteSource& source) {
    const std::uint8_t size = source.byte();
    return size < 128 ? size : (size - 128u) * 150u;
  }

  void write(std::span<const std::byte> bytes) {
    if (!is_open_ || written_ + bytes.size() > kMostWritten) return;
    if (!peer_.write(bytes.data(), bytes.size())) return;
    written_ += bytes.size();
    unread_.insert(unread_.end(), bytes.begin(), bytes.end());
  }

  // A frame whose head is mostly valid. It may lack some of its contents.
  void write_frame(ByteSource& source, std::uint8_t form) {
    FrameHead head;
    head.kind = static_cast<FrameKind>(1 + form % 8);
    if (form >= 8) head.kind = static_cast<FrameKind>(1 + form % 3);
    const std::uint8_t names = source.byte();
    head.tag = names % kTags;
    head.id = 1 + names / 4 % 4;
    head.part = static_cast<std::uint32_t>(size_from(source));
    head.bytes = head.part;
    if (head.kind == FrameKind::kBegin) head.bytes += 1 + size_from(source);
    if (head.kind > FrameKind::kMore) head.part = 0;
    if (names >= 250) head = source.value<FrameHead>();
    write(bytes_of(head));
    const std::size_t part = std::min<std::size_t>(head.part, 20'000);
    write({sheaf::fuzz::pattern(written_), names >= 240 ? part / 2 : part});
  }

  void receive(Tag tag, std::size_t bytes) {
    if (receives_.size() == kMostRequests) return;
    Receive one{nullptr, std::make_shared<ModelReceive>(),
                std::make_unique<std::byte[]>(bytes)};
    one.model->tag = tag;
    one.model->bytes = bytes;
    const bool is_possible = model_.receive(one.model);
    try {
      one.request =
          inbox_.receive(/*peer=*/1, tag, one.data.get(), bytes).release();
    } catch (const sheaf::TransportError&) {
      SHEAF_FUZZ_CHECK(!is_possible);
      return;
    }
    SHEAF_FUZZ_CHECK(is_possible);
    receives_.push_back(std::move(one));
  }

  // Its memory is freed: nothing may be written to it any more.
  void abandon(std::size_t i) {
    model_.abandon(receives_[i].model);
    inbox_.abandon(receives_[i].request);
    receives_.erase(receives_.begin() + static_cast<long>(i));
  }

  // As Transport::test() does.
  void collect(std::size_t i) {
    if (receives_[i].request->is_in_progress()) return;
    delete receives_[i].request;
    receives_.erase(receives_.begin() + static_cast<long>(i));
  }

  void advance() {
    if (!is_open_) return;
    const bool is_well = model_.read(unread_);
    unread_.clear();
    bool is_open = true;
    do {
      is_open = inbox_.advance();
    } while (is_open && sheaf::fuzz::has_news(fd_));
    SHEAF_FUZZ_CHECK(is_open == is_well && inbox_.is_invalid() == !is_well);
    if (!is_open) fail();
    read_answers();
  }

  void end(bool is_by_peer) {
    if (!is_open_) return;
    if (is_by_peer) {
      advance();
      if (!is_open_) return;
      peer_.close();
      SHEAF_FUZZ_CHECK(!inbox_.advance());
    }
    fail();
  }

  void fail() {
    is_open_ = false;
    inbox_.fail("the connection was closed");
    model_.fail();
    SHEAF_FUZZ_CHECK(!inbox_.is_open() && !inbox_.failure().empty());
  }

  void read_answers() {
    const Bytes bytes = peer_.read(1 << 16);
    answers_.insert(answers_.end(), bytes.begin(), bytes.end());
  }

  void check() {
    for (const Receive& one : receives_) check(one);
    for (Tag tag = 0; tag < kTags; ++tag)
      SHEAF_FUZZ_CHECK(inbox_.probe(tag) == model_.probe(tag));
    SHEAF_FUZZ_CHECK(inbox_.has_left() == model_.has_left());
    read_answers();
    const std::size_t count = answers_.size() / sizeof(FrameHead);
    SHEAF_FUZZ_CHECK(!is_open_ || count == model_.answers().size());
    for (; checked_answers_ < count; ++checked_answers_) {
      FrameHead head;
      std::memcpy(&head, answers_.data() + checked_answers_ * sizeof head,
                  sizeof head);
      const auto& [kind, id] = model_.answers().at(checked_answers_);
      SHEAF_FUZZ_CHECK(head.kind == kind && head.id == id && head.part == 0);
    }
  }

  static void check(const Receive& one) {
    using Model = ModelReceive::State;
    const auto state = one.request->state.load();
    const Model expected = one.model->state;
    SHEAF_FUZZ_CHECK((state == TcpRequest::State::kInProgress) ==
                     (expected == Model::kInProgress));
    SHEAF_FUZZ_CHECK((state == TcpRequest::State::kFailed) ==
                     (expected == Model::kFailed));
    if (expected == Model::kFailed)
      SHEAF_FUZZ_CHECK(!one.request->error.empty());
    if (expected == Model::kDone)
      SHEAF_FUZZ_CHECK(std::equal(one.model->data.begin(),
                                  one.model->data.end(), one.data.get()));
  }

  const int fd_;
  sheaf::fuzz::PeerEnd peer_;
  Inbox inbox_;
  sheaf::fuzz::InboxModel model_;
  std::vector<Receive> receives_;
  std::size_t written_ = 0;
  Bytes unread_;   // written since the last advance()
  Bytes answers_;  // all that have come
  std::size_t checked_answers_ = 0;
  bool is_open_ = true;
};

}  // namespace

SHEAF_FUZZ_TARGET(tcp_frames) {
  ByteSource source(input);
  Trial trial;
  for (int steps = 0; steps < 200 && !source.is_empty(); ++steps)
    trial.step(source);
  trial.finish();
}
