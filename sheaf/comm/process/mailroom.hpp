#pragma once
// Point-to-point messages. A letter carries the group, the sender's rank, the
// tag, the type and the size; small contents travel in it, large ones follow
// as an enclosure. Matching is done here: by group, sender (or any) and tag,
// in the order sent.
//
// Groups are identified by serial numbers, which are never reused. Letters of a
// group that has ended here are discarded, with their enclosures; those of a
// group that this rank is about to join are kept.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

inline constexpr int kAnySource = -1;

struct LetterHead {
  std::uint32_t group;  // serial number
  std::int32_t source;  // rank in the group
  std::int32_t tag;
  std::uint32_t enclosure;  // number of the enclosure's tag; 0: none
  std::uint64_t count;
  DType dtype;
};

// A receive that waits for its letter, or for the enclosure.
struct Receipt {
  LetterHead wanted;  // source may be kAnySource
  void* data = nullptr;
  LetterHead got{};
  std::vector<Request> enclosure{};
  bool is_matched = false;
  std::string error{};  // the letter does not fit
  std::shared_ptr<void> token{};
};

class Mailroom {
 public:
  explicit Mailroom(Transport& transport) : transport_(transport) {}

  // While it lives, this rank may be about to join a group whose number is
  // `serial()` or higher.
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
  void open_group(std::uint32_t serial);
  void close_group(std::uint32_t serial);

  // Hands the message over; it has left when all requests have ended. The
  // letter's own bytes are kept in the result.
  struct Outgoing {
    std::vector<std::byte> letter;
    std::vector<Request> requests;
    std::shared_ptr<void> token;
  };
  std::unique_ptr<Outgoing> send(int peer, LetterHead head, const void* data);
  bool test(Outgoing& outgoing);
  // Keeps a message that nobody waits for, and `memory`, until it has left.
  void adopt(std::unique_ptr<Outgoing> outgoing,
             std::shared_ptr<void> memory = nullptr);

  std::shared_ptr<Receipt> receive(const LetterHead& wanted, void* data);
  // True when the contents are there. MismatchError when they are not what
  // was asked for.
  bool test(Receipt& receipt);
  // Abandons a receive. Contents in flight are still received if their `memory`
  // is given, which is kept until then.
  void forget(const std::shared_ptr<Receipt>& receipt,
              std::shared_ptr<void> memory = nullptr) noexcept;

  // For a receipt that waits for a peer whose program has ended: whether
  // nothing can come any more. The peer is asked for its last letter, which
  // comes after all that it has sent.
  bool can_never_arrive(const Receipt& receipt, int peer);

  // Takes in letters for those who wait. To be called while this rank waits
  // for anything else: a large message does not leave before its receiver has
  // seen the letter.
  void progress();
  // Whether a message of this rank is under way or waited for.
  bool is_busy() const { return token_.use_count() > 1; }
  // Before the transport ends in an orderly way, and after it has: messages
  // that are still under way will not arrive, and their memory is freed.
  void end() noexcept;
  void free_orphans() noexcept;

  // Letters that no receive has asked for yet.
  std::size_t unclaimed_count();

 private:
  struct Letter {
    LetterHead head;
    int peer;
    std::vector<std::byte> contents;
  };
  // A message that nobody waits for: the requests still under way, and what
  // must live as long.
  struct Orphan {
    std::vector<Request> requests;
    std::shared_ptr<void> memory;
    std::shared_ptr<void> token;
  };
  // The contents of a discarded letter, received part by part.
  struct Waste {
    int peer;
    Tag tag;
    std::size_t left;  // bytes not asked for yet
    std::vector<std::byte> part;
    Request request;
    std::shared_ptr<void> token;
  };
  void fetch();  // takes letters that have come in
  void deliver(const Letter& letter, Receipt& receipt);
  void send_note(int peer, std::uint32_t note);
  void take_note(const Letter& letter);
  void discard(const Letter& letter);
  bool is_over(std::uint32_t serial) const;
  void move_orphans(std::list<Orphan>& ended);
  bool advance(Waste& waste);

  std::mutex mutex_;
  Transport& transport_;
  std::uint32_t next_enclosure_ = 1;
  // Messages hold it until they have ended.
  std::shared_ptr<void> token_ = std::make_shared<char>();
  std::set<std::uint32_t> groups_;         // that this rank is in
  std::uint32_t next_serial_ = 0;          // above all that it has been in
  std::multiset<std::uint32_t> future_{};  // lowest numbers of those to come
  std::list<Orphan> orphans_;
  std::list<Waste> wastes_;
  std::list<Letter> unclaimed_;
  std::list<std::shared_ptr<Receipt>> waiting_;
  std::set<int> asked_;  // for their last letter
  std::set<int> ended_;  // whose last letter has come
};

}  // namespace sheaf::comm
