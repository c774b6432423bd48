#pragma once
// Point-to-point messages. A letter carries the group, the sender's rank, the
// tag, the type and the size; small contents travel in it, large ones follow
// as an enclosure. Matching is done here: by sender (or any) and tag, in the
// order sent.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/transport.hpp"

namespace sheaf::comm {

inline constexpr int kAnySource = -1;

struct LetterHead {
  std::int32_t group;
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

  // Hands the message over; it has left when all requests have ended. The
  // letter's own bytes are kept in the result.
  struct Outgoing {
    std::vector<std::byte> letter;
    std::vector<Request> requests;
    std::shared_ptr<void> token;
  };
  std::unique_ptr<Outgoing> send(int peer, LetterHead head, const void* data);
  bool test(Outgoing& outgoing);
  // Keeps a message that nobody waits for until it has left.
  void adopt(std::unique_ptr<Outgoing> outgoing);

  std::shared_ptr<Receipt> receive(const LetterHead& wanted, void* data);
  // True when the contents are there. MismatchError when they are not what
  // was asked for.
  bool test(Receipt& receipt);
  void forget(const std::shared_ptr<Receipt>& receipt) noexcept;

  // For a receipt that waits for a peer whose program has ended: whether
  // nothing can come any more. The peer is asked for its last letter, which
  // comes after all that it has sent.
  bool is_in_vain(const Receipt& receipt, int peer);

  // Takes in letters for those who wait. To be called while this rank waits
  // for anything else: a large message does not leave before its receiver has
  // seen the letter.
  void progress();
  // Whether a message of this rank is under way or waited for.
  bool is_busy() const { return token_.use_count() > 1; }

 private:
  struct Letter {
    LetterHead head;
    int peer;
    std::vector<std::byte> contents;
  };
  void fetch();  // takes letters that have come in
  void deliver(const Letter& letter, Receipt& receipt);
  void send_note(int peer, std::int32_t note);
  void take_note(const Letter& letter);

  std::mutex mutex_;
  Transport& transport_;
  std::uint32_t next_enclosure_ = 1;
  // Messages hold it until they have ended.
  std::shared_ptr<void> token_ = std::make_shared<char>();
  std::list<std::unique_ptr<Outgoing>> adopted_;
  std::list<Letter> unclaimed_;
  std::list<std::shared_ptr<Receipt>> waiting_;
  std::set<int> asked_;  // for their last letter
  std::set<int> ended_;  // whose last letter has come
};

}  // namespace sheaf::comm
