#pragma once
// Point-to-point messages. A letter is a message header: group, rank of the
// sender, tag, element type and count. Small contents are sent inside the
// letter; large contents follow as a separate message, the enclosure. Letters
// and receives are matched here: by group, sender (or any sender) and tag, in
// the order sent.
//
// Groups are identified by serial numbers, which are never reused. Letters of a
// group that has ended on this rank are discarded with their enclosures;
// letters of a group that this rank is about to join are kept.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

// The source of a receipt that matches letters of any sender.
inline constexpr int kAnySender = -1;

struct LetterHead {
  std::uint32_t group;  // serial number
  std::int32_t source;  // rank in the group
  std::int32_t tag;
  std::uint32_t enclosure;  // number in the enclosure's tag; 0: none
  std::uint64_t count;
  DType dtype;
};

// Held by every message until it is complete; see Mailroom::is_busy().
struct MessageInProgress {};
using MessageToken = std::shared_ptr<const MessageInProgress>;

// A receive that waits for its letter or its enclosure.
struct Receipt {
  LetterHead wanted;  // source may be kAnySender
  void* data = nullptr;
  LetterHead got{};
  std::vector<Request> enclosure{};
  bool is_matched = false;
  std::string error{};  // set if type or count do not match
  MessageToken token{};
};

// Limit for the letters of one peer that are kept although no receive has
// matched them. Each counts kLetterCost bytes in addition to its contents.
// Above the limit, a peer's letters are fetched only while a receive waits that
// they may match; see Mailroom::held_peers().
inline constexpr std::size_t kMostUnclaimedBytes = std::size_t{64} << 20;
inline constexpr std::size_t kLetterCost = 128;

class Mailroom {
 public:
  explicit Mailroom(Transport& transport,
                    std::size_t most_unclaimed_bytes = kMostUnclaimedBytes)
      : transport_(transport), most_unclaimed_bytes_(most_unclaimed_bytes) {}

  // While this object exists, this rank may be about to join a group with
  // serial number `serial()` or higher.
  class FutureGroup {
   public:
    explicit FutureGroup(Mailroom& mailroom);
    ~FutureGroup();
    FutureGroup(const FutureGroup&) = delete;
    FutureGroup& operator=(const FutureGroup&) = delete;
    std::uint32_t serial() const { return *at_; }

   private:
    Mailroom& mailroom_;
    std::multiset<std::uint32_t>::iterator at_;
  };
  // `peers[r]` is the peer that is rank r of the group. If it is empty, any
  // peer may be any rank.
  void open_group(std::uint32_t serial, std::vector<int> peers = {});
  void close_group(std::uint32_t serial);

  // Starts to send a message, which is sent when all requests are complete. The
  // result owns the bytes of the letter.
  struct Outgoing {
    std::vector<std::byte> letter;
    std::vector<Request> requests;
    MessageToken token;
  };
  std::unique_ptr<Outgoing> send(int peer, LetterHead head, const void* data);
  bool test(Outgoing& outgoing);
  // Keeps an abandoned message, and `memory`, until it is sent.
  void adopt(std::unique_ptr<Outgoing> outgoing,
             std::shared_ptr<void> memory = nullptr);

  std::shared_ptr<Receipt> receive(const LetterHead& wanted, void* data);
  // Returns true if the contents have arrived. Throws MismatchError if type or
  // count do not match, and TransportError if the letter may be one that was
  // lost.
  bool test(Receipt& receipt);
  // Abandons a receive. Contents in transit are still received if `memory`, the
  // owner of the buffer, is given; it is kept until then.
  void forget(const std::shared_ptr<Receipt>& receipt,
              std::shared_ptr<void> memory = nullptr) noexcept;

  // For a receipt that waits for a peer whose program has ended: returns
  // whether no matching message can arrive any more. Requests a final letter
  // from the peer, which arrives after all its other letters.
  bool can_never_arrive(const Receipt& receipt, int peer);

  // Receives letters and makes progress on messages. Call it while this rank
  // waits for anything else: a large message is not transmitted before its
  // receiver has read the letter.
  void progress();
  // Whether this rank has a message in transit or a pending receive.
  bool is_busy() const { return token_.use_count() > 1; }
  // Call it when the program has ended and will not receive any more: letters
  // that no receive waits for are dropped from now on, so that this rank still
  // answers requests that come after them.
  void stop_keeping();
  // Call end() before an orderly end of the transport, and free_orphans() after
  // it: messages still in transit will not arrive, and their memory is freed.
  void end() noexcept;
  void free_orphans() noexcept;

  // Number of letters that no receive has matched yet.
  std::size_t unclaimed_count();

 private:
  struct Letter {
    LetterHead head;
    int peer;
    std::vector<std::byte> contents;
  };
  // A letter that is being received.
  struct IncomingLetter {
    int peer;
    std::vector<std::byte> bytes;
    Request request;
  };
  // An abandoned message: the requests in progress, and the memory that must
  // live as long.
  struct Orphan {
    std::vector<Request> requests;
    std::shared_ptr<void> memory;
    MessageToken token;
  };
  // The contents of a discarded letter, received part by part.
  struct Waste {
    int peer;
    Tag tag;
    std::size_t left;  // bytes not requested yet
    std::vector<std::byte> part;
    Request request;
    MessageToken token;
  };
  void fetch();  // receives the letters that have arrived
  void finish_incoming();
  std::span<const int> held_peers();
  void take(Letter letter);
  void keep(Letter letter);
  void note_claimed(const Letter& letter);
  bool is_awaited(int peer) const;
  void throw_if_lost(const Receipt& receipt) const;
  bool may_match(const LetterHead& wanted, int peer) const;
  Letter parse(int peer, std::span<const std::byte> bytes) const;
  void deliver(const Letter& letter, Receipt& receipt);
  void send_note(int peer, std::uint32_t note);
  void take_note(const Letter& letter);
  void discard(const Letter& letter);
  bool is_over(std::uint32_t serial) const;
  void move_orphans(std::list<Orphan>& ended);
  bool advance(Waste& waste);

  std::mutex mutex_;
  Transport& transport_;
  const std::size_t most_unclaimed_bytes_;
  std::uint32_t next_enclosure_ = 1;
  const MessageToken token_ = std::make_shared<MessageInProgress>();
  // The peers of the groups that this rank is in.
  std::map<std::uint32_t, std::vector<int>> groups_;
  std::uint32_t next_serial_ = 0;          // above all serials used so far
  std::multiset<std::uint32_t> future_{};  // lowest serials of future groups
  std::list<Orphan> orphans_;
  std::list<Waste> wastes_;
  std::list<IncomingLetter> incoming_;  // at most one of each peer
  std::vector<int> held_;               // see held_peers()
  std::map<int, std::string> lost_;     // peers, and why a letter was lost
  std::list<Letter> unclaimed_;
  std::map<int, std::size_t> unclaimed_bytes_;  // by peer
  bool keeps_letters_ = true;
  std::list<std::shared_ptr<Receipt>> waiting_;
  std::set<int> asked_;  // peers whose final letter was requested
  std::set<int> ended_;  // peers whose final letter has arrived
};

}  // namespace sheaf::comm
