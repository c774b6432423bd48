#include "sheaf/comm/group/point_to_point.hpp"

#include <functional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/peer_wait.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/process/mailroom.hpp"

namespace sheaf::comm {
namespace {

// Waits for one peer, or for any peer.
class MessageWatch final : public PeerWait {
 public:
  // `is_owed`: whether a message from a rank that has ended can no longer
  // arrive.
  MessageWatch(GroupCore& group, const Fingerprint& fingerprint,
               std::chrono::milliseconds timeout,
               std::function<bool(int)> is_owed)
      : PeerWait(group, fingerprint, timeout), is_owed_(std::move(is_owed)) {}
  void end() { note_end(); }

 protected:
  bool has_arrived(int rank) const override {
    return fingerprint_.root >= 0 && rank != fingerprint_.root;
  }
  bool is_owed_by(int rank) override {
    return !has_arrived(rank) && is_owed_(rank);
  }

 private:
  const std::function<bool(int)> is_owed_;
};

// A message in transit. It makes progress while a thread tests it or waits for
// it.
class MessageState : public Work::State {
 public:
  MessageState(const Group& group, const Fingerprint& fingerprint,
               std::chrono::milliseconds timeout)
      : group_(group),
        watch_(group.core(), fingerprint, timeout,
               [this](int rank) { return is_owed_by(rank); }) {}

  bool needs_polling() const override { return true; }
  bool poll() override {
    const std::lock_guard lock(poll_mutex_);
    if (is_done()) return true;
    try {
      if (!has_ended()) return false;
      watch_.end();
      finish(nullptr);
    } catch (const TransportError& error) {
      explain(error);
    } catch (...) {
      fail();
    }
    return true;
  }
  void rest() override {
    const std::lock_guard lock(poll_mutex_);
    try {
      watch_.idle();
    } catch (...) {
      // A message that has already arrived is valid even if its sender is gone.
      if (is_done() || has_ended()) return;
      fail();
    }
  }

 protected:
  virtual bool has_ended() = 0;
  // Whether the message waits for a rank that has ended and will never serve
  // it.
  virtual bool is_owed_by(int rank) = 0;

  Group group_;  // keeps the group alive
  MessageWatch watch_;

 private:
  void explain(const TransportError& error) {
    try {
      watch_.explain(error);
    } catch (...) {
      fail();
    }
  }
  void fail() {
    note_lost_peer(std::current_exception());
    finish(std::current_exception());
  }

  std::mutex poll_mutex_;
};

class SendState final : public MessageState {
 public:
  SendState(const Group& group, const Fingerprint& fingerprint,
            std::chrono::milliseconds timeout, int peer, const LetterHead& head,
            const void* data)
      : MessageState(group, fingerprint, timeout),
        out_(mailroom().send(peer, head, data)) {}
  ~SendState() override {
    if (!has_ended_well()) mailroom().adopt(std::move(out_), take_steps());
  }

 protected:
  bool has_ended() override { return mailroom().test(*out_); }
  bool is_owed_by(int /*rank*/) override { return true; }

 private:
  Mailroom& mailroom() { return group_.core().runtime().mailroom(); }
  std::unique_ptr<Mailroom::Outgoing> out_;
};

class ReceiveState final : public MessageState {
 public:
  ReceiveState(const Group& group, const Fingerprint& fingerprint,
               std::chrono::milliseconds timeout, const LetterHead& wanted,
               void* data)
      : MessageState(group, fingerprint, timeout),
        receipt_(mailroom().receive(wanted, data)) {}
  ~ReceiveState() override {
    if (!has_ended_well()) mailroom().forget(receipt_, take_steps());
  }

 protected:
  bool has_ended() override {
    if (!mailroom().test(*receipt_)) return false;
    set_source(receipt_->got.source);
    return true;
  }
  bool is_owed_by(int rank) override {
    if (receipt_->wanted.source != kAnySource) return is_silent(rank);
    for (int other = 0; other < group_.size(); ++other)
      if (other != group_.rank() && !is_silent(other)) return false;
    return true;
  }

 private:
  Mailroom& mailroom() { return group_.core().runtime().mailroom(); }
  bool is_silent(int rank) {
    const int world = group_.world_rank(rank);
    return group_.core().runtime().end_of(world).has_ended() &&
           mailroom().can_never_arrive(*receipt_, world);
  }
  std::shared_ptr<Receipt> receipt_;
};

void check_peer(const Group& group, int peer, const char* what) {
  SHEAF_CHECK(peer >= 0 && peer < group.size(), "rank ", group.rank(), ": ",
              what, " rank ", peer, ", but the group has ranks 0 to ",
              group.size() - 1);
}

Fingerprint fingerprint_of(Operation operation, const ConstBuffer& data,
                           int peer, int tag) {
  return {.operation = operation,
          .dtype = data.dtype,
          .root = peer,
          .count = data.count,
          .sequence = static_cast<std::uint32_t>(tag)};
}

}  // namespace

Work isend(const Group& group, ConstBuffer data, int to,
           const MessageOptions& options) {
  check_peer(group, to, "send to");
  GroupCore& core = group.core();
  const LetterHead head{.group = core.serial(),
                        .source = core.rank(),
                        .tag = options.tag,
                        .enclosure = 0,
                        .count = data.count,
                        .dtype = data.dtype};
  return Work(std::make_shared<SendState>(
      group, fingerprint_of(Operation::kSend, data, to, options.tag),
      options.timeout, core.world_rank(to), head, data.data));
}

Work irecv(const Group& group, Buffer data, int from,
           const MessageOptions& options) {
  if (from != kAnySource) check_peer(group, from, "recv from");
  const LetterHead wanted{.group = group.core().serial(),
                          .source = from,
                          .tag = options.tag,
                          .enclosure = 0,
                          .count = data.count,
                          .dtype = data.dtype};
  return Work(std::make_shared<ReceiveState>(
      group, fingerprint_of(Operation::kReceive, data, from, options.tag),
      options.timeout, wanted, data.data));
}

void send(const Group& group, ConstBuffer data, int to,
          const MessageOptions& options) {
  isend(group, data, to, options).wait();
}

int recv(const Group& group, Buffer data, int from,
         const MessageOptions& options) {
  Work work = irecv(group, data, from, options);
  work.wait();
  return work.source();
}

}  // namespace sheaf::comm
